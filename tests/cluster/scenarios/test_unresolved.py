"""Edits that do not resolve, one after the other, on a service that serves a long stream.

Each is told in words; nothing is deleted, no number changes and no stream is cut; and taking the
edit back is enough.
"""

import concurrent.futures
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster import audit
from tests.cluster import cluster as running
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import merged
from tests.cluster.scenarios.endpoint import Answer, Endpoint
from tests.cluster.scenarios.troubles import Trouble, Troubles
from tests.cluster.scenarios.volumes import Volumes
from tests.process.fetcher import localhub

# At 10 tokens a second: longer than the edits take.
STREAM_TOKENS = 400

NO_TEMPLATE = ["--model={{ .Model.Path }}", "--verbose={{ .Model.Size }}"]


@dataclasses.dataclass(frozen=True)
class Serving:
    """The service that is edited, and what of it has to stay as it is."""

    trouble: Trouble
    stream: concurrent.futures.Future[Answer]
    pods: frozenset[str]
    since: audit.Mark

    @property
    def endpoint(self) -> Endpoint:
        return self.trouble.endpoint


@pytest.fixture(scope="module")
def ascends(installed: running.Cluster) -> Iterator[tuple[str, str]]:
    """Two runtimes of a vendor that no other scenario has, of equal priority."""
    names = tuple(f"ascend-{letter}-{os.urandom(2).hex()}" for letter in "ab")
    for name in names:
        installed.apply(merged(builders.runtime(name), {"spec": {"vendor": "ascend"}}))
    yield (names[0], names[1])
    installed.kubectl("delete", "inferenceruntime", *names)


@pytest.fixture(scope="module")
def selecting(troubles: Troubles, ascends: tuple[str, str]) -> Trouble:
    """Begun early: it selects one of these two."""
    choice = {"name": None, "selector": {"vendor": ["ascend"]}}
    return troubles.begin("selecting", service={"runtime": choice})


@pytest.fixture(scope="module")
def orphan(troubles: Troubles) -> Trouble:
    """Begun early: its runtime does not exist."""
    return troubles.begin("early", service={"runtime": {"name": f"later-{os.urandom(2).hex()}"}})


@pytest.fixture(scope="module", autouse=True)
def serving(
    troubles: Troubles,
    volumes: Volumes,
    open_hub: localhub.LocalHub,
    selecting: Trouble,
    orphan: Trouble,
) -> Serving:
    """One replica, on weights that were staged, at work on a stream."""
    storage_class = f"edited-{os.urandom(2).hex()}"
    volumes.add(storage_class)
    sound = builders.runtime("", tokens_per_second=10)["spec"]["container"]
    args = [*sound["args"], "--served-model-name=noctaya/echo"]
    trouble = troubles.begin(
        "edited",
        runtime={"container": {"args": args, "env": builders.environment(open_hub.environ())}},
        service={
            "model": {"source": {"uri": "hf://noctaya/small"}},
            "cache": {
                "strategy": "NodeLocalPVC",
                "size": "1Gi",
                "storageClassName": storage_class,
                "prewarm": True,
            },
        },
    )
    endpoint = trouble.endpoint
    endpoint.wait_ready()
    endpoint.wait_condition("AutoscalingReady", "True", "ScaledObjectReady")
    stream = endpoint.asking(max_tokens=STREAM_TOKENS, min_tokens=STREAM_TOKENS)
    endpoint.cluster.wait("the stream runs", lambda: endpoint.queue()["demand"] == 1)
    pods = frozenset(pod["metadata"]["uid"] for pod in endpoint.pods())
    return Serving(trouble, stream, pods, endpoint.cluster.audit.mark())


def _spec(**change: Any) -> Callable[[Serving], None]:
    """An edit of the service's spec."""
    return lambda serving: serving.trouble.edit(**change)


def _annotation(name: str, value: str | None) -> Callable[[Serving], None]:
    """An edit of an annotation of the service; None takes it away."""

    def annotate(serving: Serving) -> None:
        endpoint = serving.endpoint
        change = f"{name}-" if value is None else f"{name}={value}"
        where = (f"llmservice/{endpoint.name}", f"-n={endpoint.namespace}")
        endpoint.cluster.kubectl("annotate", "--overwrite", *where, change)

    return annotate


def _runtime(**change: Any) -> Callable[[Serving], None]:
    """An edit of the service's runtime; without a change, the runtime as it was."""

    def edit(serving: Serving) -> None:
        serving.endpoint.cluster.apply(merged(serving.trouble.runtime, {"spec": change}))

    return edit


GATEWAYS = "serving.noctaya.io/gateway-replicas"
ASCEND = {"name": None, "selector": {"vendor": ["ascend"]}}


@pytest.mark.parametrize(
    ("edit", "taken_back", "reason", "words"),
    [
        pytest.param(
            _spec(model={"source": None, "catalogRef": "qwen"}),
            _spec(model={"source": {"uri": "hf://noctaya/small"}, "catalogRef": None}),
            "NotImplemented",
            ["spec.model.catalogRef"],
            id="a model of a catalog",
        ),
        pytest.param(
            _spec(resources={"fraction": {"memory": "8Gi"}}),
            _spec(resources={"fraction": None}),
            "NotImplemented",
            ["spec.resources.fraction"],
            id="a part of a device",
        ),
        pytest.param(
            _spec(scaling={"metric": "kvCacheUtil"}),
            _spec(scaling={"metric": "queueDepth"}),
            "NotImplemented",
            ["spec.scaling.metric: kvCacheUtil"],
            id="a metric that is not implemented",
        ),
        pytest.param(
            _spec(cache={"strategy": "BakedImage"}),
            _spec(cache={"strategy": "NodeLocalPVC"}),
            "NotImplemented",
            ["spec.cache.strategy: BakedImage"],
            id="weights in an image",
        ),
        pytest.param(
            _runtime(accelerator={"sharing": {"supported": True}}),
            _runtime(),
            "NotImplemented",
            ["spec.accelerator.sharing.supported"],
            id="a runtime of shared devices",
        ),
        pytest.param(
            _runtime(container={"args": NO_TEMPLATE}),
            _runtime(),
            "RuntimeInvalid",
            ["'{{ .Model.Size }}'", "spec.container.args[1]", ".Model.Path"],
            id="a template that is none",
        ),
        pytest.param(
            _spec(runtime=ASCEND),
            lambda serving: serving.trouble.edit(
                runtime={"name": serving.endpoint.namespace, "selector": None}
            ),
            "RuntimeAmbiguous",
            ["ascend-a", "ascend-b", "ascend"],
            id="a vendor with two runtimes alike",
        ),
        pytest.param(
            _spec(cache={"size": "2Gi"}),
            _spec(cache={"size": "1Gi"}),
            "CacheSpecChanged",
            ["kubectl delete job/edited-prewarm pvc/edited-cache"],
            id="a larger claim",
        ),
        pytest.param(
            _spec(model={"source": {"uri": "hf://noctaya/large"}}),
            _spec(model={"source": {"uri": "hf://noctaya/small"}}),
            "PrewarmSpecChanged",
            ["kubectl delete job edited-prewarm"],
            id="other weights",
        ),
        pytest.param(
            _annotation(GATEWAYS, "several"),
            _annotation(GATEWAYS, None),
            "SpecInvalid",
            [GATEWAYS, "several"],
            id="a number of gateways that is none",
        ),
        pytest.param(
            _annotation("serving.noctaya.io/gatway-replicas", "2"),
            _annotation("serving.noctaya.io/gatway-replicas", None),
            "SpecInvalid",
            ["did you mean gateway-replicas?"],
            id="a misspelt annotation",
        ),
    ],
)
def test_an_edit_that_does_not_resolve_is_told_and_may_be_taken_back(
    serving: Serving,
    ascends: tuple[str, str],
    edit: Callable[[Serving], None],
    taken_back: Callable[[Serving], None],
    reason: str,
    words: list[str],
) -> None:
    edit(serving)
    serving.trouble.wait_unresolved(reason, *words)
    taken_back(serving)
    serving.endpoint.wait_condition("Ready", "True", "Available")


def test_a_runtime_that_comes_later_is_enough(orphan: Trouble) -> None:
    name = orphan.endpoint.service()["spec"]["runtime"]["name"]
    orphan.wait_unresolved("RuntimeNotFound", name)
    cluster = orphan.endpoint.cluster
    cluster.apply(builders.runtime(name))
    orphan.endpoint.wait_ready()
    since = cluster.audit.mark()
    cluster.kubectl("delete", "inferenceruntime", name)
    orphan.wait_unresolved("RuntimeNotFound", name)
    assert orphan.endpoint.ask("Still here").finished
    assert not orphan.endpoint.deletions(since)


def test_of_two_runtimes_alike_the_one_that_is_raised_is_used(
    selecting: Trouble, ascends: tuple[str, str]
) -> None:
    service = selecting.endpoint
    selecting.wait_unresolved("RuntimeAmbiguous", *ascends)
    raised = merged(builders.runtime(ascends[1]), {"spec": {"vendor": "ascend", "priority": 1}})
    service.cluster.apply(raised)
    service.wait_ready()
    assert service.service()["status"]["resolvedRuntime"] == ascends[1]
    since = service.cluster.audit.mark()
    service.cluster.apply(merged(raised, {"spec": {"priority": 0}}))
    selecting.wait_unresolved("RuntimeAmbiguous", *ascends)
    assert service.ask("Still here").finished
    assert not service.deletions(since)
    assert service.replica_numbers(since) in ([], [1])


def test_none_of_the_edits_moved_or_cut_anything(serving: Serving) -> None:
    answer = serving.stream.result()
    assert answer.finished
    assert len(answer.text.split()) >= STREAM_TOKENS
    endpoint = serving.endpoint
    assert endpoint.replica_numbers(serving.since) in ([], [1])
    assert {pod["metadata"]["uid"] for pod in endpoint.pods()} == serving.pods
    assert not endpoint.deletions(serving.since)
