"""A cluster in memory, as far as the hooks see one: two controllers, a gateway, Pods and KEDA.

Metacontroller's part is the stand-in's own planning, so that "writes nothing" means what it means
on a cluster. Time stands still unless a test moves it.
"""

from __future__ import annotations

import copy
import datetime
import json
import pathlib
from typing import Any

import yaml

from hooks import wire
from hooks.autoscaling import sync as autoscaling
from hooks.llmservice import names
from hooks.llmservice import sync as llmservice
from hooks.settings import Settings
from tests.cluster.standin import plan

Obj = dict[str, Any]

EXAMPLES = pathlib.Path(__file__).parents[3] / "manifests" / "examples"
NOON = datetime.datetime(2026, 6, 1, 12, 0, 0, tzinfo=datetime.UTC)
SETTINGS = Settings(
    gateway_image="registry.example/noctaya/gateway:1",
    fetcher_image="registry.example/noctaya/fetcher:1",
    host_path_root="/var/lib/noctaya",
)

COMPOSITE_KINDS = {
    "Deployment.apps/v1": plan.IN_PLACE,
    "Job.batch/v1": plan.ON_DELETE,
    "PersistentVolumeClaim.v1": plan.ON_DELETE,
    "PodDisruptionBudget.policy/v1": plan.IN_PLACE,
    "RoleBinding.rbac.authorization.k8s.io/v1": plan.IN_PLACE,
    "Service.v1": plan.IN_PLACE,
    "ServiceAccount.v1": plan.IN_PLACE,
}
_SEEN_BY_THE_DECORATOR = (names.DEPLOYMENTS, names.JOBS, names.CLAIMS)
DECORATOR_KINDS = {"ScaledObject.keda.sh/v1alpha1": plan.IN_PLACE}


def example(name: str) -> Obj:
    """A manifest of the echo example, as it ships."""
    loaded: Obj = yaml.safe_load((EXAMPLES / "echo" / f"{name}.yaml").read_text())
    return loaded


def service(**spec: Any) -> Obj:
    """The example's LLMService as an API server holds it, its spec overlaid with ``spec``."""
    parent = example("llmservice")
    parent["metadata"] |= {"name": "m", "namespace": "ns", "uid": "uid-of-m", "generation": 1}
    parent["spec"] |= spec
    return parent


def merged(base: Any, overlay: Any) -> Any:
    """``base`` with the members of ``overlay``, at every depth; a list is replaced whole."""
    if not isinstance(base, dict) or not isinstance(overlay, dict):
        return overlay
    return base | {key: merged(base.get(key), value) for key, value in overlay.items()}


class World:
    """One LLMService and what surrounds it."""

    def __init__(self, parent: Obj | None = None, runtime: Obj | None = None) -> None:
        self.parent = parent or service()
        self.runtimes = [runtime or example("runtime")]
        self.owned: dict[str, dict[str, Obj]] = {kind: {} for kind in COMPOSITE_KINDS}
        self.attached: dict[str, dict[str, Obj]] = {kind: {} for kind in DECORATOR_KINDS}
        self.foreign: list[Obj] = []
        self.pods: dict[str, Obj] = {}
        self.now = NOON
        self.settings = SETTINGS
        self.writes: list[str] = []

    # --- What the world does ----------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        self.now += datetime.timedelta(seconds=seconds)

    def edit(self, **spec: Any) -> None:
        """A user's edit of the spec."""
        self.parent["spec"] |= spec
        self.parent["metadata"]["generation"] += 1

    def gateway_becomes(self, *, available: bool) -> None:
        """The gateways, and the scaler of several."""
        for component in ("gateway", "scaler"):
            if f"ns/m-{component}" in self.owned["Deployment.apps/v1"]:
                self.component_becomes(component, available=available)

    def has_an_outage(self) -> None:
        """The gateways, and the scaler of several, are away for a moment, a minute from now."""
        self.pass_time(60)
        self.gateway_becomes(available=False)
        self.settle()
        self.gateway_becomes(available=True)
        self.settle()

    def component_becomes(self, component: str, *, available: bool) -> None:
        self.deployment(component)["status"] = {
            "availableReplicas": int(available),
            "conditions": [
                {
                    "type": "Available",
                    "status": str(available),
                    "lastTransitionTime": stamp(self.now),
                }
            ],
        }

    def scale(self, replicas: int, *, ready: int = 0) -> None:
        """Somebody, KEDA as a rule, writes the scale subresource; so many replicas are ready."""
        backend = self.deployment("backend")
        backend["spec"]["replicas"] = replicas
        backend["status"] = {"replicas": replicas, "readyReplicas": ready}

    def job_ends(self, *, complete: bool, message: str = "") -> None:
        """The Job controller's last word on the Job."""
        kind = "Complete" if complete else "Failed"
        ended = {"type": kind, "status": "True", "message": message}
        self.job()["status"] = {"conditions": [ended]}

    def job_is_deleted(self) -> None:
        """By a user, who wants the weights staged again."""
        del self.owned[names.JOBS]["ns/m-prewarm"]

    def claim_is_replaced(self) -> None:
        """Deleted, and made again by Metacontroller before anybody looked."""
        self.owned[names.CLAIMS]["ns/m-cache"]["metadata"]["uid"] = f"uid-at-{stamp(self.now)}"

    def keda_says(self, status: str, reason: str, message: str) -> None:
        ready = {"type": "Ready", "status": status, "reason": reason, "message": message}
        self.scaled_object()["status"] = {"conditions": [ready]}

    def add_prewarm_pod(self, name: str, phase: str = "Pending", **status: Any) -> Obj:
        """A Pod of the Job that stands now."""
        template = self.job()["spec"]["template"]["metadata"]
        owner = {"controller": True, "kind": "Job", "uid": self.job()["metadata"]["uid"]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **copy.deepcopy(template),
                "name": name,
                "namespace": "ns",
                "creationTimestamp": stamp(self.now),
                "ownerReferences": [owner],
            },
            "status": {"phase": phase, **status},
        }
        self.pods[f"ns/{name}"] = pod
        return pod

    def add_pod(self, name: str, *, component: str = "backend", **status: Any) -> Obj:
        """A Pod of the current template."""
        template = self.deployment(component)["spec"]["template"]["metadata"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **copy.deepcopy(template),
                "name": name,
                "namespace": "ns",
                "creationTimestamp": stamp(self.now),
            },
            "status": status,
        }
        self.pods[f"ns/{name}"] = pod
        return pod

    def roll_out(self, component: str) -> None:
        """The Deployment controller is done: every Pod is of the template, and available."""
        deployment, count = (
            self.deployment(component),
            self.deployment(component)["spec"]["replicas"],
        )
        self.component_becomes(component, available=True)
        deployment["status"] |= {
            "observedGeneration": deployment["metadata"]["generation"],
            **dict.fromkeys(("availableReplicas", "replicas", "updatedReplicas"), count),
        }

    # --- What stands in it ------------------------------------------------------------------------

    def deployment(self, component: str) -> Obj:
        return self.owned["Deployment.apps/v1"][f"ns/m-{component}"]

    def job(self) -> Obj:
        return self.owned[names.JOBS]["ns/m-prewarm"]

    def scaled_object(self) -> Obj:
        return self.attached["ScaledObject.keda.sh/v1alpha1"]["ns/m"]

    def trigger(self) -> Obj:
        """Of the ScaledObject, which has this one."""
        found: Obj
        (found,) = self.scaled_object()["spec"]["triggers"]
        return found

    def condition(self, kind: str) -> Obj:
        found: Obj = next(c for c in self.parent["status"]["conditions"] if c["type"] == kind)
        return found

    def ready(self) -> tuple[str, str, str]:
        """The phase, and the Ready condition's status and reason."""
        ready = self.condition("Ready")
        return self.parent["status"]["phase"], ready["status"], ready["reason"]

    # --- Metacontroller ---------------------------------------------------------------------------

    def composite_request(self) -> Obj:
        related = {
            names.RUNTIMES: {r["metadata"]["name"]: r for r in self.runtimes},
            names.PODS: self.pods,
            **{kind: dict(members) for kind, members in self.owned.items()},
        }
        for obj in self.foreign:
            if _group(obj) in COMPOSITE_KINDS:
                related[_group(obj)][_key(obj)] = obj
        request = {"parent": self.parent, "children": self.owned, "related": related}
        return copy.deepcopy(request)

    def decorator_request(self) -> Obj:
        related: dict[str, dict[str, Obj]] = {
            **{kind: dict(self.owned[kind]) for kind in _SEEN_BY_THE_DECORATOR},
            **{kind: dict(members) for kind, members in self.attached.items()},
        }
        for obj in self.foreign:
            related.setdefault(_group(obj), {})[_key(obj)] = obj
        request = {"object": self.parent, "attachments": self.attached, "related": related}
        return copy.deepcopy(request)

    def ask_composite(self) -> Obj:
        request = wire.load(wire.CompositeRequest, self.composite_request())
        return wire.dump(llmservice.sync(request, settings=self.settings, now=self.now))

    def ask_decorator(self) -> Obj:
        request = wire.load(wire.DecoratorRequest, self.decorator_request())
        return wire.dump(autoscaling.sync(request, now=self.now))

    def run_composite(self) -> None:
        answer = self.ask_composite()
        for child in answer["children"]:
            child["metadata"]["labels"].setdefault("controller-uid", "uid-of-m")
        self._apply(self.owned, answer["children"], COMPOSITE_KINDS)
        status = answer["status"] | {"observedGeneration": self.parent["metadata"]["generation"]}
        if self.parent.get("status") != status:
            self.writes.append("status")
            self.parent["status"] = status

    def run_decorator(self) -> None:
        answer = self.ask_decorator()
        annotations = self.parent["metadata"].setdefault("annotations", {})
        changed = plan.changed_texts(annotations, answer["annotations"])
        if changed is not None:
            self.writes.append("annotations")
            self.parent["metadata"]["annotations"] = changed
        self._apply(self.attached, answer["attachments"], DECORATOR_KINDS)

    def settle(self) -> list[str]:
        """Runs both controllers until neither writes; the writes that it took."""
        before = len(self.writes)
        for _ in range(10):
            count = len(self.writes)
            self.run_composite()
            self.run_decorator()
            if len(self.writes) == count:
                return self.writes[before:]
        raise AssertionError(f"the controllers do not come to rest: {self.writes[before:]}")

    def _apply(self, world: dict[str, dict[str, Obj]], wanted: list[Obj], kinds: Obj) -> None:
        observed = [obj for members in world.values() for obj in members.values()]
        held = {(_group(obj), _key(obj)) for obj in self.foreign}
        for action in plan.children(self.parent, observed, wanted, kinds):
            obj = json.loads(json.dumps(action.obj))
            group, key = _group(obj), _key(obj)
            if isinstance(action, plan.Create) and (group, key) in held:
                continue
            self.writes.append(f"{type(action).__name__} {group.partition('.')[0]} {key}")
            if isinstance(action, plan.Delete):
                del world[group][key]
            else:
                obj["metadata"].setdefault("uid", f"uid-of-{key}")
                obj["metadata"].setdefault("creationTimestamp", stamp(self.now))
                if world[group].get(key, {}).get("spec") != obj.get("spec"):
                    obj["metadata"]["generation"] = obj["metadata"].get("generation", 0) + 1
                world[group][key] = obj


def serving(world: World, *, replicas: int = 1) -> World:
    """The world after the hand-over, with so many replicas ready and KEDA content."""
    world.settle()
    world.gateway_becomes(available=True)
    world.settle()
    world.keda_says("True", "ScaledObjectReady", "ScaledObject is defined correctly")
    world.scale(replicas, ready=replicas)
    world.settle()
    return world


def stamp(time: datetime.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _group(obj: Obj) -> str:
    return f"{obj['kind']}.{obj['apiVersion']}"


def _key(obj: Obj) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
