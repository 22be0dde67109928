"""Children that somebody else touches: adopted, repaired, let go, left alone."""

import json
import time

import pytest

from tests.cluster.scenarios.builders import Object
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint

SELECTED_BY = "controller-uid"
COMPONENT = "app.kubernetes.io/component"


@pytest.fixture(scope="module")
def touched(start: Start) -> Endpoint:
    """Its claim finds no volume, which a service at zero does not need."""
    cache = {"strategy": "NodeLocalPVC", "size": "1Gi", "storageClassName": "nobodys"}
    service = start("touched", cache=cache)
    service.wait_asleep()
    return service


def test_an_orphan_is_adopted_as_it_is(touched: Endpoint) -> None:
    before = _child(touched, "service", "touched-backend")
    since = touched.cluster.audit.mark()
    _patch(touched, "service", "touched-backend", {"metadata": {"ownerReferences": None}})

    def adopted() -> bool:
        return _owners(touched, "service", "touched-backend") == [_uid(touched)]

    touched.cluster.wait("the Service has its owner back", adopted)
    after = _child(touched, "service", "touched-backend")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    assert not touched.deletions(since)


def test_what_is_ours_in_a_child_is_put_back_and_what_is_not_stays(touched: Endpoint) -> None:
    labels = {COMPONENT: "mistaken", "rig.noctaya.io/theirs": "kept"}
    _patch(touched, "service", "touched-backend", {"metadata": {"labels": labels}})

    def repaired() -> bool:
        seen = _labels(touched, "service", "touched-backend")
        return seen[COMPONENT] == "backend" and "rig.noctaya.io/theirs" in seen

    touched.cluster.wait("the label is put back", repaired)


def test_a_child_without_its_label_is_let_go_and_comes_back_with_it(touched: Endpoint) -> None:
    since = touched.cluster.audit.mark()
    label: dict[str, str | None] = {SELECTED_BY: None}
    _patch(touched, "service", "touched-backend", {"metadata": {"labels": label}})
    touched.wait_condition("Ready", "False", "ChildNameTaken")
    assert _owners(touched, "service", "touched-backend") == []
    label[SELECTED_BY] = _uid(touched)
    _patch(touched, "service", "touched-backend", {"metadata": {"labels": label}})
    touched.wait_asleep()
    assert _owners(touched, "service", "touched-backend") == [_uid(touched)]
    assert not touched.deletions(since)


def test_a_claim_is_made_once_and_never_edited(touched: Endpoint) -> None:
    _patch(touched, "pvc", "touched-cache", {"metadata": {"labels": {COMPONENT: "theirs"}}})
    time.sleep(5)
    assert _labels(touched, "pvc", "touched-cache")[COMPONENT] == "theirs"


def _child(service: Endpoint, kind: str, name: str) -> Object:
    found = service.cluster.get(kind, name, service.namespace)
    assert found is not None, f"there is no {kind} {name}"
    return found


def _labels(service: Endpoint, kind: str, name: str) -> dict[str, str]:
    labels: dict[str, str] = _child(service, kind, name)["metadata"]["labels"]
    return labels


def _owners(service: Endpoint, kind: str, name: str) -> list[str]:
    """The uids of those who own a child."""
    owners = _child(service, kind, name)["metadata"].get("ownerReferences", [])
    return [owner["uid"] for owner in owners]


def _uid(service: Endpoint) -> str:
    return str(service.service()["metadata"]["uid"])


def _patch(service: Endpoint, kind: str, name: str, patch: Object) -> None:
    service.cluster.kubectl(
        "patch", kind, name, f"-n={service.namespace}", "--type=merge", f"-p={json.dumps(patch)}"
    )
