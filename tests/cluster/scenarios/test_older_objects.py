"""Objects that an API server took without today's rules, and hooks without their settings.

Every hooks' Pod and the CRDs are everybody's, so these tests are not for workers.
"""

import dataclasses
import os
from collections.abc import Iterator

import pytest

from hooks.api import crds
from tests.cluster import cluster as running
from tests.cluster import layout, noctaya
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import Object, merged
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint
from tests.cluster.scenarios.troubles import Trouble
from tests.process.fetcher import localhub

pytestmark = pytest.mark.alone

SETTINGS = {
    "NOCTAYA_HOST_PATH_ROOT": noctaya.HOST_PATH_ROOT,
    "NOCTAYA_FETCHER_IMAGE": f"noctaya/fetcher:{layout.VERSION}",
}


@pytest.fixture
def older(installed: running.Cluster) -> Iterator[running.Cluster]:
    """With a CRD of LLMService that has no rules, for as long as the test does not say so."""
    yield installed
    _use(installed, crds.llmservices())


def test_a_service_older_than_the_rules_is_told_what_to_mend(
    older: running.Cluster,
) -> None:
    namespace = f"older-{os.urandom(2).hex()}"
    older.kubectl("create", "namespace", namespace)
    sound = builders.service(namespace, "sound", "echo-quick")
    older.apply(sound)
    _use(older, _without_rules(crds.llmservices()))
    spelled = merged(sound, {"metadata": {"name": "spelled"}})
    spelled["spec"]["scaling"]["activationTimeout"] = "five minutes"
    named = merged(sound, {"metadata": {"name": "7b.instruct"}})

    def taken() -> bool:
        older.apply(spelled, named)
        return True

    older.wait("the API server takes what it would refuse", taken)
    _use(older, crds.llmservices())
    for name in ("spelled", "7b.instruct"):
        # What was written before the rules came proves nothing; and this is a status, too.
        nothing = ("--type=merge", '--patch={"status": {"conditions": null}}')
        where = ("patch", "llmservice", name, f"-n={namespace}", "--subresource=status")
        older.kubectl(*where, *nothing)

    wrongly_spelled = Trouble(Endpoint(older, namespace, "spelled"), {})
    wrongly_spelled.wait_unresolved("SpecInvalid", "spec.scaling.activationTimeout", "five minutes")
    wrongly_spelled.edit(scaling={"activationTimeout": "5m"})
    wrongly_spelled.endpoint.wait_asleep()

    wrongly_named = Trouble(Endpoint(older, namespace, "7b.instruct"), {})
    wrongly_named.wait_unresolved("NameInvalid", "a letter first")
    older.kubectl("delete", "llmservice", "7b.instruct", f"-n={namespace}", "--timeout=30s")
    assert Endpoint(older, namespace, "sound").ask("Unmoved").finished
    older.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def unset(installed: running.Cluster) -> Iterator[running.Cluster]:
    """Hooks without the settings that some services need."""
    try:
        noctaya.set_hooks(installed, **dict.fromkeys(SETTINGS))
        noctaya.wait_for_hooks(installed)
        yield installed
    finally:
        noctaya.set_hooks(installed, **SETTINGS)
        noctaya.wait_for_hooks(installed)


def test_a_service_that_needs_a_setting_names_it_and_the_setting_is_enough(
    unset: running.Cluster, start: Start, open_hub: localhub.LocalHub
) -> None:
    runtime = merged(
        builders.runtime("unset"),
        {"spec": {"container": {"env": builders.environment(open_hub.environ())}}},
    )
    unset.apply(runtime)
    source = {"uri": "hf://noctaya/small"}
    on_node = start("on-node", "unset", source=source, cache={"strategy": "HostPath"})
    cache = {"strategy": "NodeLocalPVC", "size": "1Gi", "prewarm": True}
    on_claim = start("on-claim", "unset", source=source, cache=cache)
    Trouble(on_node, runtime).wait_unresolved("HostPathDisabled", "NOCTAYA_HOST_PATH_ROOT")
    Trouble(on_claim, runtime).wait_unresolved("FetcherMissing", "NOCTAYA_FETCHER_IMAGE")
    noctaya.set_hooks(unset, **SETTINGS)
    noctaya.wait_for_hooks(unset)
    # A hook's setting is no object: Metacontroller looks again when it next starts, or is poked.
    noctaya.start_metacontroller(unset)
    on_node.wait_asleep()
    on_claim.wait_condition("Ready", "False", "Prewarming")
    assert on_claim.condition("Degraded")["reason"] == "Progressing"
    assert dataclasses.replace(on_node, model="noctaya/small").ask("On the node").finished


def _without_rules(crd: Object) -> Object:
    """The CRD with a schema that takes anything."""
    anything: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    (version,) = crd["spec"]["versions"]
    opened = {**version, "schema": {"openAPIV3Schema": anything}}
    return {**crd, "spec": {**crd["spec"], "versions": [opened]}}


def _use(cluster: running.Cluster, crd: Object) -> None:
    """Have the API server know a kind by this CRD."""
    cluster.apply(crd)
    name = crd["metadata"]["name"]
    cluster.kubectl("wait", f"crd/{name}", "--for=condition=Established", "--timeout=30s")
