"""The gateway's account and what it may read."""

from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.plan import Plan


def service_account(plan: Plan) -> Object:
    """The gateway's account. Its Pods ask for the token themselves."""
    return {
        "apiVersion": "v1",
        "automountServiceAccountToken": False,
        "kind": "ServiceAccount",
        "metadata": _metadata(plan),
    }


def role_binding(plan: Plan) -> Object:
    """Lets the gateway read the EndpointSlices of its namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(plan),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": names.GATEWAY_CLUSTER_ROLE,
        },
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": names.gateway(plan.service),
                "namespace": plan.namespace,
            }
        ],
    }


def _metadata(plan: Plan) -> Object:
    return {
        "labels": names.labels(plan.service, "gateway"),
        "name": names.gateway(plan.service),
        "namespace": plan.namespace,
    }
