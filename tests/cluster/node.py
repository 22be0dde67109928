"""The one node: containerd, kubelet and kube-proxy, and their settings."""

import json
import pathlib

from tests.cluster import control_plane, layout, machine, programs

_BIN = layout.STATE / "bin"
SOCKET = layout.STATE / "containerd.sock"

_CONTAINERD = """\
version = 3
root = "{state}/containerd/root"
state = "{state}/containerd/state"

[grpc]
  address = "{socket}"

[ttrpc]
  address = "{socket}.ttrpc"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
  # Root without CAP_SYS_RESOURCE (a container, a small VM) may not lower an OOM score; without
  # this, runc dies with "can't get final child's PID from pipe".
  restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{cni_plugins}"]
  conf_dir = "{state}/cni"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{runc}"
  SystemdCgroup = false
"""

_CNI = {
    "cniVersion": "1.0.0",
    "name": "rig",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "rig0",
            "isGateway": True,
            "ipMasq": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": layout.POD_NETWORK}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}

_PROXY = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "mode": "nftables",
    "clientConnection": {"kubeconfig": f"{layout.STATE}/proxy.kubeconfig"},
    "clusterCIDR": "10.244.0.0/16",
    "hostnameOverride": layout.NODE_NAME,
    "bindAddress": layout.NODE_ADDRESS,
    # The limit is the machine's, not the namespace's, and not ours to change.
    "conntrack": {"maxPerCore": 0},
    "metricsBindAddress": "127.0.0.1:10249",
    "healthzBindAddress": "127.0.0.1:10256",
}


def start(instance: layout.Instance) -> None:
    """Start the three, and return once the node is Ready. Images come in between."""
    kubelet(instance)
    kube_proxy(instance)


def containerd(instance: layout.Instance) -> programs.Program:
    (instance.state / "cni").mkdir(exist_ok=True)
    (instance.state / "cni" / "rig.conflist").write_text(json.dumps(_CNI))
    (instance.state / "containerd.toml").write_text(
        _CONTAINERD.format(
            state=layout.STATE,
            socket=SOCKET,
            pause=layout.PAUSE_IMAGE,
            cni_plugins=machine.CNI_PLUGINS,
            runc=machine.find("runc"),
        )
    )
    program = programs.start(
        instance, "containerd", [_BIN / "containerd", "-c", layout.STATE / "containerd.toml"]
    )
    programs.wait_until(
        "containerd answers",
        lambda: ctr(instance, "version") != "",
        program=program,
    )
    return program


def kubelet(instance: layout.Instance) -> programs.Program:
    # Pods that ask for the node's resolver get the rig's, never the machine's.
    (instance.state / "node-resolv.conf").write_text(f"nameserver {layout.NODE_ADDRESS}\n")
    (instance.state / "kubelet.json").write_text(json.dumps(_kubelet_settings(instance)))
    program = programs.start(
        instance,
        "kubelet",
        [
            _BIN / "kubelet",
            f"--config={layout.STATE / 'kubelet.json'}",
            f"--kubeconfig={layout.STATE / 'node.kubeconfig'}",
            f"--root-dir={layout.STATE / 'kubelet'}",
            f"--hostname-override={layout.NODE_NAME}",
            f"--node-ip={layout.NODE_ADDRESS}",
        ],
    )
    programs.wait_until("the node is Ready", lambda: ready(instance), program=program)
    return program


def kube_proxy(instance: layout.Instance) -> programs.Program:
    (instance.state / "proxy.json").write_text(json.dumps(_PROXY))
    return programs.start(
        instance, "kube-proxy", [_BIN / "kube-proxy", f"--config={layout.STATE / 'proxy.json'}"]
    )


def ready(instance: layout.Instance) -> bool:
    path = '{.status.conditions[?(@.type=="Ready")].status}'
    status = control_plane.kubectl(
        instance, "get", "node", layout.NODE_NAME, "--ignore-not-found", f"-o=jsonpath={path}"
    )
    return status == "True"


def ctr(instance: layout.Instance, *arguments: str, stdin: pathlib.Path | None = None) -> str:
    """containerd's own client, in the namespace where kubelet looks for images."""
    client = [str(_BIN / "ctr"), f"--address={SOCKET}", "--namespace=k8s.io"]
    return programs.run(instance, [*client, *arguments], stdin=stdin, timeout=300).stdout


def load(instance: layout.Instance, reference: str, archive: pathlib.Path) -> None:
    """Import an image archive under the name that Pods use."""
    ctr(instance, "images", "import", f"--index-name={reference}", "-", stdin=archive)


def accelerators(instance: layout.Instance, resource: str, count: int) -> None:
    """Let the node claim ``count`` devices, as a device plugin would; 0 is a node without.

    kubelet copies the capacity to what is allocatable; the scheduler counts that.
    """
    pointer = "/status/capacity/" + resource.replace("~", "~0").replace("/", "~1")
    patch = [{"op": "add", "path": pointer, "value": str(count)}]
    control_plane.kubectl(
        instance,
        "patch", "node", layout.NODE_NAME,
        "--subresource=status", "--type=json", f"--patch={json.dumps(patch)}",
    )  # fmt: skip


def _kubelet_settings(instance: layout.Instance) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.NODE_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{layout.STATE}/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{instance.name}",
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        # Scenarios leave their Pods to the end of the session, and several run at once.
        "maxPods": 240,
        "protectKernelDefaults": False,
        "clusterDNS": [layout.DNS_SERVICE_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{layout.STATE}/node-resolv.conf",
        "nodeStatusUpdateFrequency": "4s",
        # How soon a changed Secret is in a Pod's volume: a minute or more by default.
        "syncFrequency": "5s",
        # Images are imported, not pulled: one that is collected would not come back. And a full
        # disk of a developer's machine shall not evict anything.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {},
        "localStorageCapacityIsolation": False,
    }
