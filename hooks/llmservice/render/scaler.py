"""What KEDA asks: a Service and, for several gateways, the aggregate scaler behind it."""

from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.plan import Plan
from hooks.llmservice.render import program

# It keeps a number for each gateway; the rest is the program: 60 MiB resident, measured with the
# stream of one gateway and with those of ten. TLS and an exchange of certificates want some more.
_RESOURCES = {"limits": {"memory": "128Mi"}, "requests": {"memory": "64Mi"}}

# There is nothing that it would have to finish.
_GRACE_SECONDS = 15


def service(plan: Plan) -> Object:
    """Leads to the gateway, which is its own scaler, or to the scaler of several gateways.

    Several gateways have no port of the target's name, so that none is taken for the scaler while
    one number of gateways gives way to another.
    """
    port = {"name": "grpc", "port": program.SCALER_PORT, "targetPort": "scaler"}
    pods = plan.gateway.formation.asked
    return program.service(plan, names.scaler(plan.service), "scaler", pods=pods, port=port)


def deployment(plan: Plan) -> Object:
    """One replica, which has the whole state as soon as it has asked the gateways."""
    pod = program.pod(
        plan,
        _container(plan),
        grace_seconds=_GRACE_SECONDS,
        volumes=program.tls_volumes(plan),
    )
    name = names.scaler(plan.service)
    return program.deployment(plan, name, "scaler", replicas=1, pod=pod)


def _container(plan: Plan) -> Object:
    scaling = plan.spec.scaling
    args = [
        "--aggregate",
        f"--namespace={plan.namespace}",
        f"--service={plan.service}",
        f"--min-replicas={scaling.min}",
        f"--target={scaling.target}",
        *program.tls_flags(plan),
    ]
    ports = {"http": program.HTTP_PORT, "scaler": program.SCALER_PORT}
    container = program.container(
        plan, names.SCALER_CONTAINER, args=args, ports=ports, resources=_RESOURCES
    )
    mounts = program.tls_mounts(plan)
    return container | ({"volumeMounts": mounts} if mounts else {})
