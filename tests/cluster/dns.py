"""CoreDNS as a program of the rig, and the Service through which Pods reach it."""

import json

from tests.cluster import control_plane, layout, programs

# The caching that older kubeadm clusters ship: a negative answer is remembered for 30 s. A rig
# that answers faster than real clusters would hide the faults that this makes.
_COREFILE = f"""\
.:53 {{
  bind {layout.NODE_ADDRESS}
  errors
  ready {layout.NODE_ADDRESS}:8181
  kubernetes cluster.local {{
    kubeconfig {layout.STATE}/coredns.kubeconfig
    ttl 30
  }}
  cache 30
}}
"""

# The rig's own programs look names up as Pods do, from no namespace in particular.
RESOLVER = f"""\
nameserver {layout.DNS_SERVICE_ADDRESS}
search svc.cluster.local cluster.local
options ndots:5
"""

_PORTS = [
    {"name": "dns", "port": 53, "protocol": "UDP"},
    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
]
_OBJECTS = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "coredns"},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["endpoints", "services", "pods", "namespaces"],
                "verbs": ["list", "watch"],
            },
            {
                "apiGroups": ["discovery.k8s.io"],
                "resources": ["endpointslices"],
                "verbs": ["list", "watch"],
            },
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "coredns"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "coredns",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "coredns"}],
    },
    {
        # Without a selector: the program is no Pod, so the slice below is made by hand.
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": layout.DNS_SERVICE_ADDRESS, "ports": _PORTS},
    },
    {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns-rig",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [layout.NODE_ADDRESS], "conditions": {"ready": True}}],
        "ports": _PORTS,
    },
]


def start(instance: layout.Instance) -> programs.Program:
    """Start CoreDNS and return once it knows the cluster's Services."""
    objects = {"apiVersion": "v1", "kind": "List", "items": _OBJECTS}
    control_plane.kubectl(instance, "apply", "--filename=-", stdin=json.dumps(objects))
    (instance.state / "Corefile").write_text(_COREFILE)
    program = programs.start(
        instance,
        "coredns",
        [layout.STATE / "bin" / "coredns", "-conf", layout.STATE / "Corefile"],
    )
    programs.wait_until("CoreDNS answers", lambda: _resolves(instance), program=program)
    return program


def _resolves(instance: layout.Instance) -> bool:
    """Through the Service address, so that kube-proxy's rules are in place too."""
    found = programs.run(
        instance, ["getent", "hosts", "kubernetes.default.svc.cluster.local"], check=False
    )
    return layout.API_SERVICE_ADDRESS in found.stdout
