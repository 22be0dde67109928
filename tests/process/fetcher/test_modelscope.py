"""Staging from the (fake) ModelScope."""

import json
import pathlib

import pytest

from tests.process.fetcher import localhub, models, rig

pytestmark = pytest.mark.process
FOLDER = "modelscope/org--m/master"


@pytest.fixture(autouse=True)
def model(hub: localhub.LocalHub) -> localhub.Repo:
    hub.repos["org/m"] = localhub.Repo(files=models.small())
    return hub.repos["org/m"]


def test_a_model_is_staged_at_a_path_that_its_uri_gives(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    run = rig.stage("modelscope://org/m", cache, environ=hub.environ())
    assert run.code == 0, run.err
    assert rig.tree(cache / FOLDER) == models.small()
    before = len(hub.seen)
    model.files["config.json"] = b"moved on"
    assert rig.stage("modelscope://org/m", cache, environ=hub.environ()).code == 0
    assert len(hub.seen) == before, "what is staged stays until it is asked for anew"
    assert rig.stage("modelscope://org/m@v1/x", cache, environ=hub.environ()).code == 0
    assert rig.tree(cache / "modelscope/org--m/v1%2Fx")["config.json"] == b"moved on"


def test_the_token_goes_to_the_endpoint_only(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.token = "ms_right"

    def to_cdn(exchange: localhub.Exchange) -> bool:
        if exchange.kind != "ms-file" or exchange.content is None:
            return False
        where = f"{hub.cdn_url}/cdn/org/m/{exchange.path}?Signature=s3cr3t"
        return exchange.send(302, headers={"Location": where})

    hub.fault = to_cdn
    environ = hub.environ(MODELSCOPE_API_TOKEN="ms_right")
    run = rig.stage("modelscope://org/m", cache, environ=environ)
    assert run.code == 0, run.err
    assert hub.asked("ms-list")[0].headers["cookie"] == "m_session_id=ms_right"
    for seen in hub.asked("cdn"):
        assert not {"authorization", "cookie"} & set(seen.headers)
    run = rig.stage("modelscope://org/m@other", cache, environ=hub.environ())
    assert (run.code, "MODELSCOPE_API_TOKEN is not set" in run.reason) == (10, True)


@pytest.mark.parametrize(
    "entry",
    [
        {"Path": "../../evil-ms", "Type": "blob", "Size": 4, "Sha256": "0" * 64},
        {"Path": "/abs/evil", "Type": "blob", "Size": 4, "Sha256": "0" * 64},
        {"Path": ".noctaya", "Type": "blob", "Size": 4, "Sha256": "0" * 64},
        {"Path": "CONFIG.json", "Type": "blob", "Size": 4, "Sha256": "0" * 64},
    ],
)
def test_a_hostile_listing_is_refused_before_any_file_is_asked_for(
    hub: localhub.LocalHub, cache: pathlib.Path, entry: dict[str, object]
) -> None:
    hub.listing = lambda entries: [*entries, entry]
    assert rig.stage("modelscope://org/m", cache, environ=hub.environ()).code == 13
    assert hub.asked("ms-file") == []
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    "entry",
    [
        {"Path": "x", "Type": "blob", "Size": 4},
        {"Path": "x", "Type": "blob", "Size": 4, "Sha256": ""},
        {"Path": "x", "Type": "blob", "Size": "4", "Sha256": "0" * 64},
        {"Path": "x", "Type": "commit", "Size": 4, "Sha256": "0" * 64},
        {"Type": "blob", "Size": 4, "Sha256": "0" * 64},
    ],
)
def test_an_entry_that_proves_nothing_is_refused(
    hub: localhub.LocalHub, cache: pathlib.Path, entry: dict[str, object]
) -> None:
    hub.listing = lambda entries: [*entries, entry]
    assert rig.stage("modelscope://org/m", cache, environ=hub.environ()).code == 16
    assert rig.tree(cache) == {}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"Code": 10010205001, "Success": False, "Message": "not found", "Data": None}, 16),
        ({"Code": 200, "Success": True, "Data": {"Files": None}}, 16),
        ({"Code": 200, "Success": True, "Data": {"Files": ["x"]}}, 16),
        ({"Code": 200, "Success": True, "Data": {"Files": []}}, 11),
        ([], 16),
    ],
)
def test_success_that_lists_nothing_is_no_success(
    hub: localhub.LocalHub, cache: pathlib.Path, body: object, code: int
) -> None:
    hub.fault = lambda e: e.kind == "ms-list" and e.send(200, json.dumps(body).encode())
    assert rig.stage("modelscope://org/m", cache, environ=hub.environ()).code == code
    assert rig.tree(cache) == {}


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [("ms-list", 404, 11), ("ms-list", 403, 10), ("ms-list", 503, 20), ("ms-file", 503, 20)],
)
def test_refusals_and_outages_have_their_codes(
    hub: localhub.LocalHub, cache: pathlib.Path, kind: str, status: int, code: int
) -> None:
    hub.fault = lambda e: e.kind == kind and e.send(status)
    run = rig.stage("modelscope://org/m", cache, "--tries=2", environ=hub.environ())
    assert run.code == code, run.err


def test_a_flipped_bit_is_found_and_a_cut_outlived(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    cuts = iter([True, True])

    def cut(e: localhub.Exchange) -> bool:
        wanted = e.kind == "ms-file" and e.path == "model-00001-of-00002.safetensors"
        content = e.content
        if not wanted or content is None or not next(cuts, False):
            return False
        return e.send_content(content, cut_after=70_000)

    hub.fault = cut
    assert rig.stage("modelscope://org/m", cache, environ=hub.environ()).code == 0
    hub.fault = lambda e: (
        e.kind == "ms-file" and e.content is not None and e.send_content(bytes(len(e.content)))
    )
    run = rig.stage("modelscope://org/m@other", cache, environ=hub.environ())
    assert run.code == 12, run.err


def test_a_tree_that_is_longer_than_one_listing_is_walked_folder_by_folder(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.files = {f"{n % 4}/{n % 3}/{n}": b"%d" % n for n in range(3500)} | {"config.json": b"{}"}
    run = rig.stage("modelscope://org/m", cache, environ=hub.environ(), timeout=300)
    assert run.code == 0, run.err
    assert rig.tree(cache / FOLDER) == model.files


def test_a_folder_that_no_listing_holds_is_refused_in_words(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.files = {f"{n}.txt": b"x" for n in range(3001)}
    run = rig.stage("modelscope://org/m", cache, environ=hub.environ())
    assert (run.code, "does not list completely" in run.reason) == (16, True)
