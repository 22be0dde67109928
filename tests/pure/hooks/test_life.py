"""Services that live: users, KEDA, Pods and stale copies in any order, and what must hold in all.

The rules are those of the design: no accelerator before the weights, nobody but KEDA lowers a
number that is KEDA's, no edit deletes, a spec that does not resolve changes nothing, and a world at
rest is left at rest. In the end everything is put right, and then the service must be well.
"""

from __future__ import annotations

import copy

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from hooks.autoscaling import render as autoscaling
from hooks.k8s import objects
from hooks.llmservice import names
from tests.pure.hooks import life, rules, scenes
from tests.pure.hooks.life import LivingWorld
from tests.pure.hooks.world import Obj, example, merged, service, stamp

HUB, PINNED, MODELSCOPE, CLAIM, ARTIFACT = (
    {"source": {"uri": uri}}
    for uri in (
        "hf://org/name",
        "hf://org/name@v1",
        "modelscope://org/name",
        "pvc://weights/sub",
        scenes.ARTIFACT["model"]["source"]["uri"],
    )
)
NONE, LAZY, STAGED, SHARED, ON_NODE = (
    {"strategy": "None"},
    {"strategy": "NodeLocalPVC"},
    {"strategy": "NodeLocalPVC", "prewarm": True},
    {"strategy": "SharedPVC", "prewarm": True, "size": "80Gi"},
    {"strategy": "HostPath", "prewarm": True},
)
WEIGHTS: list[Obj] = [
    {"model": HUB, "cache": STAGED},
    {"model": PINNED, "cache": STAGED},
    {"model": HUB, "cache": SHARED},
    {"model": MODELSCOPE, "cache": STAGED},
    {"model": ARTIFACT, "cache": LAZY},
    {"model": HUB, "cache": LAZY},
    {"model": PINNED, "cache": ON_NODE},
    {"model": CLAIM, "cache": NONE},
    {"model": PINNED},
    {"cache": NONE},
    {"cache": SHARED},
]
TLS: Obj = {"tls": {"serverSecretName": "tls", "authenticationRef": {"name": "keda"}}}
SCALINGS: list[Obj] = [
    {},
    {"min": 1, "max": 3},
    {"max": 2, "externalScaler": TLS},
    {"min": 2, "max": 2, "scaleDownStabilization": "10s"},
]
RUNTIMES: list[Obj] = [{"name": "echo"}, {"selector": {"vendor": ["ascend", "nvidia"]}}]
KEY: Obj = {"authentication": {"secretRef": {"name": "key", "key": "key"}}}
EDITS: list[Obj] = [
    *WEIGHTS,
    *({"scaling": scaling} for scaling in SCALINGS),
    *({"runtime": runtime} for runtime in RUNTIMES),
    {"runtime": {"name": "echo", "argsOverride": ["--x={{ y }}"]}},
    {"endpoint": KEY},
    {"endpoint": {}},
]
MISTAKES: list[Obj] = [
    {"model": {"source": {"uri": "s3://bucket/name"}}},
    {"model": {"catalogRef": "name"}},
    {"scaling": {"min": 3, "max": 1}},
    {"scaling": {"drainTimeout": "-1s"}},
    {"runtime": {"name": "nobody"}},
    {"runtime": {}},
    {"cache": {"strategy": "BakedImage"}},
    {"endpoint": {"maxQueue": 0}},
]
# Children whose names a stranger may hold before their service has them.
STRANGERS: list[tuple[str, str, str]] = [
    ("v1", "Service", "m"),
    ("apps/v1", "Deployment", "m-backend"),
    ("apps/v1", "Deployment", "m-scaler"),
    ("v1", "PersistentVolumeClaim", "m-cache"),
    ("batch/v1", "Job", "m-prewarm"),
    ("keda.sh/v1alpha1", "ScaledObject", "m"),
]


class Life(RuleBasedStateMachine):
    """What can happen to one service."""

    def __init__(self) -> None:
        super().__init__()
        self.world = LivingWorld(service(), [example("runtime")])
        self.old_composite = self.world.composite_request()
        self.old_decorator = self.world.decorator_request()
        self.pods = 0
        self.is_prompt = False  # Whether Metacontroller looks at whatever happens at once.

    @initialize(
        edits=st.lists(st.sampled_from(EDITS), max_size=3),
        days=st.integers(0, 3),
        is_prompt=st.sampled_from([True, True, False]),
    )
    def has_lived_before(self, edits: list[Obj], days: int, *, is_prompt: bool) -> None:
        """What most rules are about comes late in a life."""
        self.is_prompt = is_prompt
        for edit in edits:
            self.world.edit(**copy.deepcopy(edit))
        for _ in range(days):
            self.has_a_good_day()
        self.caches_fall_behind()

    # --- The users --------------------------------------------------------------------------------

    @rule(edit=st.sampled_from(EDITS))
    def is_edited(self, edit: Obj) -> None:
        """Not every two edits fit each other."""
        self.world.edit(**copy.deepcopy(edit))

    @rule(mistake=st.sampled_from(MISTAKES))
    def is_broken(self, mistake: Obj) -> None:
        self.world.edit(**copy.deepcopy(mistake))

    @rule()
    def is_repaired(self) -> None:
        """Back to the last spec that resolved."""
        self.world.edit(**copy.deepcopy(self.world.resolved))
        self.world.runtimes = [example("runtime")]
        if objects.annotation(self.world.parent, names.GATEWAY_REPLICAS) == "many":
            self.gets_so_many_gateways("2")

    @rule(count=st.sampled_from(["1", "2", "1", "2", "many"]))
    def gets_so_many_gateways(self, count: str) -> None:
        annotations = self.world.parent["metadata"].setdefault("annotations", {})
        annotations[names.GATEWAY_REPLICAS] = count

    @rule()
    def loses_its_annotation(self) -> None:
        """By hand: KEDA's words, which handed the number over."""
        self.world.parent["metadata"].get("annotations", {}).pop(names.AUTOSCALING, None)

    @rule(fate=st.sampled_from(["whole", "another image", "gone", "broken", "ambiguous"]))
    def runtime_becomes(self, fate: str) -> None:
        runtime = example("runtime")
        twin = merged(runtime, {"metadata": {"name": "twin"}})
        self.world.runtimes = {
            "whole": [runtime],
            "gone": [],
            "another image": [merged(runtime, {"spec": {"container": {"image": "other:2"}}})],
            "broken": [merged(runtime, {"spec": {"container": {"args": ["{{ .X }}"]}}})],
            "ambiguous": [runtime, twin],
        }[fate]

    @rule(which=st.sampled_from(STRANGERS))
    def stranger_takes_a_name(self, which: tuple[str, str, str]) -> None:
        version, kind, name = which
        stranger = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
        stranger["metadata"] |= {"namespace": "ns", "uid": "uid-of-a-stranger"}  # type: ignore[operator]
        held = life.members(self.world.owned) + life.members(self.world.attached)
        if life.key_of(stranger) not in life.keys_of(held + self.world.foreign):
            self.world.foreign.append(stranger)

    @rule()
    def strangers_and_garbage_go(self) -> None:
        self.world.foreign.clear()

    @rule(name=st.sampled_from(["backend", "gateway", "scaler"]))
    def deployment_is_deleted_by_hand(self, name: str) -> None:
        self.world.owned[names.DEPLOYMENTS].pop(f"ns/m-{name}", None)

    @rule()
    def is_deleted_and_made_again(self) -> None:
        self.world.parent_is_replaced()

    # --- Metacontroller ---------------------------------------------------------------------------

    @rule()
    def caches_fall_behind(self) -> None:
        """What they hold now is what stale syncs will see."""
        self.old_composite = self.world.composite_request()
        self.old_decorator = self.world.decorator_request()

    @rule(stale=st.booleans(), writes=st.sampled_from([None, None, 1, 3]))
    def composite_is_asked(self, *, stale: bool, writes: int | None) -> None:
        body = self.old_composite if stale else self.world.composite_request()
        rules.check_composite(self.world, self.world.sync_composite(body, writes=writes))

    @rule(stale=st.booleans(), writes=st.sampled_from([None, None, 0]))
    def decorator_is_asked(self, *, stale: bool, writes: int | None) -> None:
        body = self.old_decorator if stale else self.world.decorator_request()
        rules.check_decorator(self.world.sync_decorator(body, writes=writes))

    @rule()
    def comes_to_rest(self) -> None:
        rules.settle(self.world)

    @rule()
    def has_a_good_day(self) -> None:
        """Everybody sees the present, and does a part."""
        self.is_repaired()
        rules.settle(self.world)
        rules.do_a_clusters_part(self.world)
        rules.settle(self.world)

    # --- The cluster and KEDA ---------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 90, 1000]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    @rule(name=st.sampled_from(["gateway", "scaler"]), available=st.booleans())
    def own_program_becomes(self, name: str, *, available: bool) -> None:
        if f"ns/m-{name}" in self.world.owned[names.DEPLOYMENTS]:
            if available:
                self.world.roll_out(name)
            else:
                self.world.component_becomes(name, available=False)

    @precondition(lambda self: "ns/m-prewarm" in self.world.owned[names.JOBS])
    @rule(fate=st.sampled_from(["complete", "failed", "deleted"]))
    def job_becomes(self, fate: str) -> None:
        if fate == "deleted":
            self.world.job_is_deleted()
        elif "status" not in self.world.job():
            self.world.job_ends(complete=fate == "complete")

    @precondition(lambda self: self.world.claim() is not None)
    @rule(at_once=st.booleans())
    def claim_is_deleted(self, *, at_once: bool) -> None:
        claim = self.world.claim()
        assert claim is not None
        if at_once:
            del self.world.owned[names.CLAIMS]["ns/m-cache"]
        else:
            claim["metadata"]["deletionTimestamp"] = stamp(self.world.now)

    @precondition(lambda self: self.world.kedas() is not None and self.world.backend() is not None)
    @rule(wanted=st.integers(0, 4))
    def keda_scales(self, wanted: int) -> None:
        kedas = self.world.kedas()
        assert kedas is not None
        spec = kedas["spec"]
        replicas = min(max(wanted, spec["minReplicaCount"]), spec["maxReplicaCount"])
        at_zero = self.world.deployment("backend")["spec"]["replicas"] == 0
        if not (at_zero and objects.annotation(kedas, autoscaling.PAUSED_SCALE_OUT)):
            self.world.set_replicas(replicas)

    @precondition(lambda self: self.world.kedas() is not None)
    @rule(words=st.sampled_from([("True", "ScaledObjectReady"), ("False", "Check")]))
    def keda_speaks(self, words: tuple[str, str]) -> None:
        self.world.keda_says(*words, "its words")

    @precondition(lambda self: self.world.backend() is not None)
    @rule(fate=st.sampled_from(["made", "unscheduled", "loading", "ready", "crashed", "ending"]))
    def pod_becomes(self, fate: str) -> None:
        self.pods += 1
        crashed = scenes.FAILURES["CrashLoopBackOff"]
        states: dict[str, Obj] = {
            "made": {},
            "unscheduled": {"conditions": [scenes.scheduled("False", "no gpu")]},
            "loading": {"containerStatuses": [{"name": "engine", "state": {"running": {}}}]},
            "ready": {"conditions": [{"type": "Ready", "status": "True"}]},
            "crashed": {"containerStatuses": [crashed]},
            "ending": {},
        }
        pod = self.world.add_pod(f"m-backend-{self.pods % 3}", **states[fate])
        if fate == "ending":
            pod["metadata"]["deletionTimestamp"] = stamp(self.world.now)
        self.world.count()

    @rule()
    def pods_are_gone(self) -> None:
        self.world.pods.clear()
        self.world.count()

    # --- What holds at every moment ---------------------------------------------------------------

    @invariant()
    def both_controllers_keep_the_rules(self) -> None:
        if self.is_prompt:
            self.composite_is_asked(stale=False, writes=None)
            self.decorator_is_asked(stale=False, writes=None)

    @invariant()
    def the_same_world_gets_the_same_bytes(self) -> None:
        body = self.world.composite_request()
        assert rules.told(self.world, body) == rules.told(self.world, life.turned(body))

    def teardown(self) -> None:
        rules.check_that_all_ends_well(self.world)


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    # The same lives on every run; with more of them, and others, when somebody goes looking.
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
