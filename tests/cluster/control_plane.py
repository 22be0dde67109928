"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler: their settings."""

import json
import pathlib

from tests.cluster import certificates, errors, layout, machine, programs

_PKI = layout.STATE / "pki"
_BIN = layout.STATE / "bin"

# The kinds that the project's parts write. Their bodies are logged, because tests read from them
# who set a field to what; of everything else it is enough to know who did what when.
_OURS = [
    {"group": "", "resources": ["services", "serviceaccounts", "persistentvolumeclaims"]},
    {"group": "apps"},
    {"group": "batch"},
    {"group": "policy"},
    {"group": "keda.sh"},
    {"group": "metacontroller.k8s.io"},
    {"group": "serving.noctaya.io"},
]
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # One event for each request, with its result.
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/openapi*"]},
        {
            "level": "RequestResponse",
            "verbs": ["create", "update", "patch", "delete", "deletecollection"],
            "resources": _OURS,
        },
        {"level": "Metadata"},
    ],
}


def identities(authority: certificates.Authority) -> None:
    """Certificates and kubeconfigs of the cluster's own parts."""
    authority.issue(
        "apiserver",
        "/CN=kube-apiserver",
        "DNS:localhost",
        "DNS:kubernetes",
        "DNS:kubernetes.default",
        "DNS:kubernetes.default.svc",
        "IP:127.0.0.1",
        f"IP:{layout.API_SERVICE_ADDRESS}",
        f"IP:{layout.NODE_ADDRESS}",
    )
    authority.issue("front-proxy", "/CN=front-proxy")
    subjects = {
        "admin": "/O=system:masters/CN=admin",
        # Apart from the admin, so that the audit log tells tests from kubelet access.
        "kubelet-client": "/O=system:masters/CN=kube-apiserver-kubelet-client",
        "controller-manager": "/CN=system:kube-controller-manager",
        "scheduler": "/CN=system:kube-scheduler",
        "proxy": "/CN=system:kube-proxy",
        "node": f"/O=system:nodes/CN=system:node:{layout.NODE_NAME}",
        "coredns": "/CN=coredns",
    }
    for name, subject in subjects.items():
        authority.issue(name, subject)
        config = authority.folder.parent / f"{name}.kubeconfig"
        config.write_text(authority.kubeconfig(name))
        config.chmod(0o600)


def start(instance: layout.Instance) -> None:
    """Start the four, and return once the API server is ready."""
    etcd(instance)
    apiserver(instance)
    controller_manager(instance)
    scheduler(instance)


def etcd(instance: layout.Instance) -> programs.Program:
    return programs.start(
        instance,
        "etcd",
        [
            _BIN / "etcd",
            f"--data-dir={layout.STATE / 'etcd'}",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--log-level=warn",
            # The data ends with the rig; a slow disk shall not slow every write.
            "--unsafe-no-fsync",
        ],
    )


def apiserver(instance: layout.Instance) -> programs.Program:
    (instance.state / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))
    program = programs.start(
        instance,
        "kube-apiserver",
        [
            _BIN / "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--bind-address={layout.NODE_ADDRESS}",
            f"--advertise-address={layout.NODE_ADDRESS}",
            "--secure-port=6443",
            f"--service-cluster-ip-range={layout.SERVICE_NETWORK}",
            f"--tls-cert-file={_PKI}/apiserver.crt",
            f"--tls-private-key-file={_PKI}/apiserver.key",
            f"--client-ca-file={_PKI}/ca.crt",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            f"--service-account-key-file={_PKI}/service-accounts.pub",
            f"--service-account-signing-key-file={_PKI}/service-accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            # For aggregated APIs (KEDA's metrics adapter).
            f"--requestheader-client-ca-file={_PKI}/ca.crt",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={_PKI}/front-proxy.crt",
            f"--proxy-client-key-file={_PKI}/front-proxy.key",
            # exec and logs would ask a DNS that does not know the node's name.
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={_PKI}/kubelet-client.crt",
            f"--kubelet-client-key={_PKI}/kubelet-client.key",
            f"--audit-policy-file={layout.STATE / 'audit-policy.json'}",
            f"--audit-log-path={layout.STATE / 'audit.log'}",
            # In the file before the client has its answer: a test may read it at once.
            "--audit-log-mode=blocking-strict",
            # One file for the rig's whole life.
            "--audit-log-maxsize=10000",
        ],
    )
    programs.wait_until(
        "the API server is ready",
        lambda: kubectl(instance, "get", "--raw=/readyz") == "ok",
        program=program,
    )
    return program


def controller_manager(instance: layout.Instance) -> programs.Program:
    # The node grace period stays at its default: with a short one, an API server that was away
    # for a minute made endpoints read `ready: false`, as if the node were lost.
    return programs.start(
        instance,
        "kube-controller-manager",
        [
            _BIN / "kube-controller-manager",
            *_as("controller-manager"),
            f"--service-account-private-key-file={_PKI}/service-accounts.key",
            f"--root-ca-file={_PKI}/ca.crt",
            "--use-service-account-credentials=true",
            "--horizontal-pod-autoscaler-sync-period=2s",
            "--horizontal-pod-autoscaler-downscale-stabilization=5s",
        ],
    )


def scheduler(instance: layout.Instance) -> programs.Program:
    return programs.start(instance, "kube-scheduler", [_BIN / "kube-scheduler", *_as("scheduler")])


def kubectl(instance: layout.Instance, *arguments: str, stdin: str | None = None) -> str:
    """kubectl as the cluster's admin; its output, or a RigError with its last line."""
    if not instance.network.exists():
        raise errors.RigError("no rig is running: start one with `python -m tests.cluster up`")
    return machine.call(*kubectl_command(instance), *arguments, stdin=stdin)


def kubectl_command(instance: layout.Instance) -> list[str | pathlib.Path]:
    """kubectl needs the network alone, so that it reads and writes the caller's files."""
    return [
        "nsenter",
        f"--net={instance.network}",
        instance.state / "bin" / "kubectl",
        f"--kubeconfig={instance.kubeconfig}",
    ]


def _as(identity: str) -> list[str]:
    config = layout.STATE / f"{identity}.kubeconfig"
    return [
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
    ]
