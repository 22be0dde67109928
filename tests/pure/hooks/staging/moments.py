"""A service at each moment of its staging, and what is looked at there."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from fetcher import layout, uris
from hooks.autoscaling import render as autoscaling
from tests.pure.hooks.scenes import VLLM
from tests.pure.hooks.world import Obj, World, service

DIGEST = "sha256:" + "0a" * 32
STAGED: dict[str, Any] = {
    "model": {"source": {"uri": "hf://org/name@v1"}},
    "cache": {"strategy": "NodeLocalPVC", "prewarm": True},
    "runtime": {"name": "vllm"},
}


def world_of(**spec: Any) -> World:
    return World(service(**STAGED | spec), json.loads(json.dumps(VLLM)))


def staging(**spec: Any) -> World:
    """The Job runs, and the gateway is there."""
    world = world_of(**spec)
    world.settle()
    world.gateway_becomes(available=True)
    world.settle()
    return world


def staged(**spec: Any) -> World:
    world = staging(**spec)
    world.job_ends(complete=True)
    world.settle()
    return world


def asleep(**spec: Any) -> World:
    """Staged, handed over to KEDA, and at zero."""
    world = staged(**spec)
    world.keda_says("True", "ScaledObjectReady", "ScaledObject is defined correctly")
    world.scale(0)
    world.settle()
    return world


def awake(**spec: Any) -> World:
    world = asleep(**spec)
    world.scale(1, ready=1)
    world.settle()
    return world


def replicas(world: World) -> int:
    number: int = world.deployment("backend")["spec"]["replicas"]
    return number


def template(world: World) -> Obj:
    found: Obj = world.deployment("backend")["spec"]["template"]
    return found


def gateway_args(world: World) -> list[str]:
    container = world.deployment("gateway")["spec"]["template"]["spec"]["containers"][0]
    args: list[str] = container["args"]
    return args


def engine(world: World) -> Obj:
    found: Obj = template(world)["spec"]["containers"][0]
    return found


def env(container: Obj) -> dict[str, str]:
    return {e["name"]: e["value"] for e in container.get("env", []) if "value" in e}


def fetcher(world: World) -> Obj:
    found: Obj = world.job()["spec"]["template"]["spec"]["containers"][0]
    return found


def copied(world: World) -> Obj:
    found: Obj = json.loads(json.dumps(world.owned | world.attached))
    return found


def is_paused(world: World) -> bool:
    annotations: Obj = world.scaled_object()["metadata"].get("annotations", {})
    paused: bool = annotations.get(autoscaling.PAUSED_SCALE_OUT) == "true"
    return paused


def model_path(world: World) -> str:
    path: str = engine(world)["args"][1]
    return path


def place(uri: str) -> pathlib.PurePosixPath:
    """Where the fetcher puts it, by its own code."""
    return pathlib.PurePosixPath("/cache") / layout.folder_of(uris.parse(uri), "commit").folder
