"""Where the weights are, for the fetcher that puts them there and the engine that reads them."""

from __future__ import annotations

import pytest

from hooks.llmservice import names
from tests.pure.hooks.staging.moments import (
    DIGEST,
    engine,
    env,
    fetcher,
    model_path,
    place,
    staged,
    staging,
    template,
    world_of,
)
from tests.pure.hooks.world import Obj, World


@pytest.mark.parametrize(
    "uri",
    [
        "modelscope://org/name",
        "modelscope://org/na.me@v1",
        "modelscope://org/name@feature/x",
        f"oci://r.example:5000/a/b@{DIGEST}",
    ],
)
def test_the_engine_is_given_the_folder_that_the_fetcher_makes(uri: str) -> None:
    world = staged(model={"source": {"uri": uri}})
    assert fetcher(world)["args"][1] == uri
    assert model_path(world) == str(place(uri))
    assert "VLLM_USE_MODELSCOPE" not in env(engine(world))


@pytest.mark.parametrize("uri", ["hf://org/name", "huggingface://org/name@v1"])
def test_the_hubs_client_is_led_to_where_the_fetcher_puts_its_tree(uri: str) -> None:
    world = staged(model={"source": {"uri": uri}})
    assert model_path(world) == "org/name"
    given = env(engine(world))
    assert given["HF_HUB_OFFLINE"] == "1"
    # The client looks in HF_HOME/hub/models--ORG--NAME.
    assert place(uri).is_relative_to(f"{given['HF_HOME']}/hub/models--org--name")


def test_a_runtime_cannot_lead_the_engine_away_from_staged_weights() -> None:
    world = world_of()
    world.runtimes[0]["spec"]["container"]["env"] += [
        {"name": "HF_HOME", "value": "/elsewhere/hf"},
        {"name": "HF_HUB_CACHE", "value": "/elsewhere/hub"},
        {"name": "HF_HUB_OFFLINE", "value": "0"},
        {"name": "VLLM_CACHE_ROOT", "value": "/elsewhere"},
    ]
    world.settle()
    given = env(engine(world))
    assert (given["HF_HOME"], given["HF_HUB_OFFLINE"]) == ("/cache", "1")
    assert "HF_HUB_CACHE" not in given
    assert given["VLLM_CACHE_ROOT"] == "/elsewhere"
    assert len(engine(world)["env"]) == len({e["name"] for e in engine(world)["env"]})


def test_a_hub_without_staging_is_downloaded_by_the_engine() -> None:
    world = world_of(model={"source": {"uri": "modelscope://org/name"}}, cache={})
    world.settle()
    assert not world.owned[names.JOBS]
    assert model_path(world) == "org/name"
    given = env(engine(world))
    assert given["VLLM_USE_MODELSCOPE"] == "True"
    assert given["MODELSCOPE_CACHE"] == "/cache/modelscope-hub"
    assert "HF_HUB_OFFLINE" not in given


def cache_mount(world: World) -> Obj:
    found: Obj = next(m for m in engine(world)["volumeMounts"] if m["name"] == "cache")
    return found


def test_a_shared_cache_is_read_only_from_the_start_and_all_else_is_writable() -> None:
    world = staging(cache={"strategy": "SharedPVC", "prewarm": True})
    assert cache_mount(world)["readOnly"] is True
    given = env(engine(world))
    written = ("HOME", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME", "HF_MODULES_CACHE")
    assert all(given[name].startswith("/tmp") for name in written)
    assert given["HF_HOME"] == "/cache"
    before = template(world)
    world.job_ends(complete=True)
    world.settle()
    assert template(world) == before


@pytest.mark.parametrize("strategy", ["NodeLocalPVC", "SharedPVC"])
def test_a_cache_that_the_engine_may_write_to_keeps_its_compile_cache(strategy: str) -> None:
    world = world_of(
        cache={"strategy": strategy, "prewarm": strategy == "NodeLocalPVC"},
        model={"source": {"uri": "hf://org/name"}},
    )
    world.settle()
    assert "readOnly" not in cache_mount(world)
    assert env(engine(world))["VLLM_CACHE_ROOT"] == "/cache/vllm"


def test_the_end_of_the_job_never_changes_the_template() -> None:
    world = staging()
    before = template(world)
    for end in (False, True):
        world.job_ends(complete=end)
        world.settle()
        assert template(world) == before
