"""Noctaya in the rig: the install that ships, and a Metacontroller to run it.

The Metacontroller is the program named by the environment variable ``METACONTROLLER``, or else
the stand-in. Either runs under the account that `account.yaml` and Noctaya's own ``rbac.yaml``
give their rights to, never as the admin.
"""

import os
import pathlib
import sys

from tests.cluster import audit, layout, programs
from tests.cluster import cluster as running

NAMESPACE = "noctaya-system"
AUTOSCALING = "llmservice-autoscaling"
# Where services with `cache.strategy: HostPath` keep weights on the node.
HOST_PATH_ROOT = str(layout.STATE / "host-path")
METACONTROLLER = audit.service_account("metacontroller", "metacontroller")

_HERE = pathlib.Path(__file__).parent
_PROGRAM = "metacontroller"

# What a user would wait for: the real program asks the API server for its kinds this often.
_REAL_FLAGS = (
    "--discovery-interval=5s",
    "--client-go-qps=50",
    "--client-go-burst=100",
    "--metrics-address=127.0.0.1:9670",
    "--health-probe-bind-address=127.0.0.1:9671",
)


def install(cluster: running.Cluster) -> None:
    """``kubectl apply -k``, as a user would, and wait until the hooks answer."""
    cluster.apply(_HERE / "standin" / "crds.yaml", _HERE / "standin" / "account.yaml")
    cluster.kubectl(
        "wait",
        "crd/compositecontrollers.metacontroller.k8s.io",
        "crd/decoratorcontrollers.metacontroller.k8s.io",
        "--for=condition=Established",
        "--timeout=30s",
    )
    installed = cluster.get("deployment", "noctaya-hooks", NAMESPACE) is not None
    cluster.apply(layout.REPOSITORY / "manifests")
    set_hooks(cluster, NOCTAYA_HOST_PATH_ROOT=HOST_PATH_ROOT)
    if installed:
        # A rig that was kept: the image has the same name as before and may be another.
        cluster.kubectl("rollout", "restart", "deployment/noctaya-hooks", f"-n={NAMESPACE}")
    wait_for_hooks(cluster)


def set_hooks(cluster: running.Cluster, **settings: str | None) -> None:
    """Give the hooks these settings, or take those away that are None; they start afresh."""
    changes = [f"{name}-" if text is None else f"{name}={text}" for name, text in settings.items()]
    cluster.kubectl("set", "env", "deployment/noctaya-hooks", f"-n={NAMESPACE}", *changes)


def wait_for_hooks(cluster: running.Cluster) -> None:
    """Wait until the hooks that were asked for last answer, and no others."""
    cluster.kubectl(
        "rollout", "status", "deployment/noctaya-hooks", f"-n={NAMESPACE}", "--timeout=120s"
    )


def start_metacontroller(cluster: running.Cluster) -> programs.Program:
    """Start it afresh; one that runs is stopped first."""
    stop_metacontroller(cluster)
    real = os.environ.get("METACONTROLLER")
    start = [real, *_REAL_FLAGS] if real else [sys.executable, "-m", "tests.cluster.standin"]
    return cluster.run_as_service_account(
        _PROGRAM,
        [*start, "--kubeconfig={kubeconfig}"],
        account="metacontroller",
        namespace="metacontroller",
    )


def stop_metacontroller(cluster: running.Cluster) -> None:
    """Stop it as a lost node would; nothing happens where none runs."""
    found = programs.find(cluster.instance, _PROGRAM)
    if found is not None and found.alive():
        found.stop()


def poke(cluster: running.Cluster) -> None:
    """Have Metacontroller look at the autoscaling controller again, as its docs tell users to."""
    stamp = os.urandom(4).hex()
    cluster.kubectl(
        "annotate",
        "--overwrite",
        f"decoratorcontroller/{AUTOSCALING}",
        f"serving.noctaya.io/poke={stamp}",
    )


def remove_autoscaling(cluster: running.Cluster) -> None:
    """Take the autoscaling controller away; what it made stays, and nothing new is made."""
    cluster.kubectl("delete", "decoratorcontroller", AUTOSCALING)


def install_autoscaling(cluster: running.Cluster) -> None:
    """Put it back."""
    cluster.apply(_HERE.parents[1] / "metacontroller" / "llmservice-autoscaling.yaml")
