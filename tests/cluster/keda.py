"""KEDA's two programs in the rig, under the account and the rights that KEDA ships.

Apart from ``up``, because scenarios install it late, stop it and remove it. The operator does
0 -> 1 -> 0 by itself. For 1 -> N the HPA controller asks the API server for external metrics, and
that asks the adapter, which asks the operator.
"""

import base64
import json

from tests.cluster import accounts, build, certificates, control_plane, layout, programs

NAMESPACE = "keda"
ACCOUNT = "keda-operator"
_OPERATOR = "keda-operator"
_ADAPTER = "keda-adapter"

_METRICS_API = "v1beta1.external.metrics.k8s.io"
_METRICS_SERVICE = "keda-metrics-apiserver"
_METRICS_PORT = 9443

_CERTIFICATES = layout.STATE / "keda-certificates"
_SETTINGS = {
    "WATCH_NAMESPACE": "",
    "POD_NAMESPACE": NAMESPACE,
    "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
}


def install(instance: layout.Instance) -> None:
    """Kinds, account, rights, and both programs running; what is there already stays."""
    crds = build.data("keda") / "crd" / "bases"
    # Server-side: the ScaledObject kind is too large for the annotation of a client-side apply.
    _apply(instance, "--server-side", "--filename", str(crds))
    control_plane.kubectl(
        instance, "wait", "--for=condition=Established", "--timeout=30s", "--filename", str(crds)
    )
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
        },
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    _apply(instance, "--filename=-", stdin=listed)
    for folder in ("rbac", "metrics-server"):
        for file in ("role.yaml", "role_binding.yaml"):
            _apply(instance, "--filename", str(build.data("keda") / folder / file))
    start(instance)
    _serve_metrics(instance)


def start(instance: layout.Instance) -> None:
    """Start the operator, or find it running, and return once it is ready."""
    if _runs(instance, _OPERATOR):
        return
    _certificates(instance)
    program = accounts.run_as(
        instance,
        _OPERATOR,
        [
            layout.STATE / "bin" / "keda-operator",
            "--zap-log-level=info",
            "--zap-encoder=console",
            "--zap-time-encoding=rfc3339",
            f"--cert-dir={_CERTIFICATES}",
            # The defaults are ports that other programs of the rig may want.
            "--metrics-bind-address=0",
            "--health-probe-bind-address=127.0.0.1:9667",
            "--metrics-service-bind-address=127.0.0.1:9666",
        ],
        account=ACCOUNT,
        namespace=NAMESPACE,
        env=_SETTINGS,
    )
    programs.wait_until(
        "KEDA is ready",
        lambda: "ok" in _probe(instance, "http://127.0.0.1:9667/readyz"),
        program=program,
    )


def _serve_metrics(instance: layout.Instance) -> None:
    """Start the adapter and make it the API server's source of external metrics."""
    if not _runs(instance, _ADAPTER):
        accounts.run_as(
            instance,
            _ADAPTER,
            [
                layout.STATE / "bin" / "keda-adapter",
                "--zap-log-level=error",
                f"--cert-dir={_CERTIFICATES}",
                f"--tls-cert-file={_CERTIFICATES / 'tls.crt'}",
                f"--tls-private-key-file={_CERTIFICATES / 'tls.key'}",
                f"--kubeconfig={accounts.KUBECONFIG}",
                f"--lister-kubeconfig={accounts.KUBECONFIG}",
                f"--authentication-kubeconfig={accounts.KUBECONFIG}",
                f"--authorization-kubeconfig={accounts.KUBECONFIG}",
                f"--bind-address={layout.NODE_ADDRESS}",
                f"--secure-port={_METRICS_PORT}",
                "--metrics-service-address=localhost:9666",
            ],
            account=ACCOUNT,
            namespace=NAMESPACE,
            env=_SETTINGS,
        )
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": _metrics_service()})
    _apply(instance, "--filename=-", stdin=listed)
    _apply(instance, "--filename", str(build.data("keda") / "metrics-server" / "api_service.yaml"))
    # What KEDA's operator does for itself where it makes its own certificates.
    authority = base64.b64encode((instance.state / "pki" / "ca.crt").read_bytes()).decode()
    patch = json.dumps({"spec": {"caBundle": authority}})
    control_plane.kubectl(
        instance, "patch", "apiservice", _METRICS_API, "--type=merge", f"--patch={patch}"
    )
    control_plane.kubectl(
        instance, "wait", "apiservice", _METRICS_API, "--for=condition=Available", "--timeout=60s"
    )


def _metrics_service() -> list[dict[str, object]]:
    """The Service by which the API server reaches the adapter, which is no Pod here."""
    port = {"name": "https", "port": 443, "targetPort": _METRICS_PORT}
    metadata = {"name": _METRICS_SERVICE, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [port]}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": _METRICS_SERVICE}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": _METRICS_PORT}],
            "endpoints": [{"addresses": [layout.NODE_ADDRESS]}],
        },
    ]


def stop(instance: layout.Instance) -> None:
    """End the operator, as a rollout or a lost node does; its kinds and objects stay."""
    _stop(instance, _OPERATOR)


def uninstall_kinds(instance: layout.Instance) -> None:
    """Remove KEDA's kinds, and with them every ScaledObject; its metrics too.

    The operator, where it still runs, finalises the objects; where it does not, their finalizers
    are removed here, as the administrator of a broken removal would.
    """
    crds = build.data("keda") / "crd" / "bases"
    # First: while an API of the server is away, no namespace can be deleted.
    control_plane.kubectl(instance, "delete", "apiservice", _METRICS_API, "--ignore-not-found")
    _stop(instance, _ADAPTER)
    if not _runs(instance, _OPERATOR):
        _drop_finalizers(instance)
    control_plane.kubectl(
        instance, "delete", "--ignore-not-found", "--timeout=60s", "--filename", str(crds)
    )


def _drop_finalizers(instance: layout.Instance) -> None:
    kinds = control_plane.kubectl(instance, "get", "crd", "--output=name")
    if "scaledobjects.keda.sh" not in kinds:
        return
    listed = json.loads(
        control_plane.kubectl(
            instance, "get", "scaledobjects.keda.sh", "--all-namespaces", "--output=json"
        )
    )
    for item in listed["items"]:
        control_plane.kubectl(
            instance,
            "patch",
            "scaledobjects.keda.sh",
            item["metadata"]["name"],
            f"--namespace={item['metadata']['namespace']}",
            "--type=merge",
            '--patch={"metadata":{"finalizers":null}}',
        )


def _certificates(instance: layout.Instance) -> None:
    """One certificate for the operator and the adapter, as in KEDA's own install."""
    folder = instance.state / _CERTIFICATES.name
    if folder.exists():
        return
    authority = certificates.Authority(instance.state / "pki")
    authority.issue(
        "keda",
        "/CN=keda",
        "DNS:localhost",
        f"DNS:{_OPERATOR}.{NAMESPACE}.svc",
        f"DNS:{_METRICS_SERVICE}.{NAMESPACE}.svc",
        "IP:127.0.0.1",
    )
    folder.mkdir(mode=0o700)
    for source, name in (("ca.crt", "ca.crt"), ("keda.crt", "tls.crt"), ("keda.key", "tls.key")):
        (folder / name).write_bytes((authority.folder / source).read_bytes())


def _runs(instance: layout.Instance, name: str) -> bool:
    running = programs.find(instance, name)
    return running is not None and running.alive()


def _stop(instance: layout.Instance, name: str) -> None:
    running = programs.find(instance, name)
    if running is not None:
        running.stop()


def _apply(instance: layout.Instance, *arguments: str, stdin: str | None = None) -> None:
    control_plane.kubectl(instance, "apply", *arguments, stdin=stdin)


def _probe(instance: layout.Instance, url: str) -> str:
    return programs.run(instance, ["busybox", "wget", "-qO-", url], timeout=5).stdout
