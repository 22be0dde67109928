"""KEDA's operator as a program of the rig, under the account and the rights that KEDA ships.

Apart from ``up``, because scenarios install it late, stop it and remove it. Its metrics adapter
is not here yet: 1 -> N needs it, 0 -> 1 -> 0 does not.
"""

import json

from tests.cluster import accounts, build, certificates, control_plane, layout, programs

NAMESPACE = "keda"
ACCOUNT = "keda-operator"
_PROGRAM = "keda-operator"


def install(instance: layout.Instance) -> programs.Program:
    """Kinds, account, rights and a running operator; what is there already stays."""
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
    for file in ("role.yaml", "role_binding.yaml"):
        _apply(instance, "--filename", str(build.data("keda") / "rbac" / file))
    return start(instance)


def start(instance: layout.Instance) -> programs.Program:
    """Start the operator, or find it running, and return once it is ready."""
    running = programs.find(instance, _PROGRAM)
    if running is not None and running.alive():
        return running
    folder = instance.state / "keda-certificates"
    if not folder.exists():
        _certificates(instance)
    program = accounts.run_as(
        instance,
        _PROGRAM,
        [
            layout.STATE / "bin" / "keda-operator",
            "--zap-log-level=info",
            "--zap-encoder=console",
            "--zap-time-encoding=rfc3339",
            f"--cert-dir={layout.STATE / 'keda-certificates'}",
            # The defaults are ports that other programs of the rig may want.
            "--metrics-bind-address=0",
            "--health-probe-bind-address=127.0.0.1:9667",
            "--metrics-service-bind-address=127.0.0.1:9666",
        ],
        account=ACCOUNT,
        namespace=NAMESPACE,
        env={
            "WATCH_NAMESPACE": "",
            "POD_NAMESPACE": NAMESPACE,
            "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
        },
    )
    programs.wait_until(
        "KEDA is ready",
        lambda: "ok" in _probe(instance, "http://127.0.0.1:9667/readyz"),
        program=program,
    )
    return program


def stop(instance: layout.Instance) -> None:
    """End the operator, as a rollout or a lost node does; its kinds and objects stay."""
    running = programs.find(instance, _PROGRAM)
    if running is not None:
        running.stop()


def uninstall_kinds(instance: layout.Instance) -> None:
    """Remove KEDA's kinds, and with them every ScaledObject.

    The operator, where it still runs, finalises the objects; where it does not, their finalizers
    are removed here, as the administrator of a broken removal would.
    """
    crds = build.data("keda") / "crd" / "bases"
    running = programs.find(instance, _PROGRAM)
    if running is None or not running.alive():
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
    """The certificate under which the operator serves metrics to the adapter."""
    authority = certificates.Authority(instance.state / "pki")
    authority.issue(
        "keda", "/CN=keda", "DNS:localhost", f"DNS:keda-operator.{NAMESPACE}.svc", "IP:127.0.0.1"
    )
    folder = instance.state / "keda-certificates"
    folder.mkdir(mode=0o700)
    for source, name in (("ca.crt", "ca.crt"), ("keda.crt", "tls.crt"), ("keda.key", "tls.key")):
        (folder / name).write_bytes((authority.folder / source).read_bytes())


def _apply(instance: layout.Instance, *arguments: str, stdin: str | None = None) -> None:
    control_plane.kubectl(instance, "apply", *arguments, stdin=stdin)


def _probe(instance: layout.Instance, url: str) -> str:
    return programs.run(instance, ["busybox", "wget", "-qO-", url], timeout=5).stdout
