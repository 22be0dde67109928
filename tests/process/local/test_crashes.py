"""Engines that end on their own."""

import time

from tests.process.local.conftest import Manifests, Start


def test_a_crashed_engine_is_started_again_and_the_status_says_so(
    up: Start, manifests: Manifests
) -> None:
    manifests.scaling["min"] = 1
    manifests.command("noctaya-echo", "--crash-after-seconds", "5", "--crash-exit-code", "9")
    running = up(manifests.write())
    running.wait_for(lambda line: line["phase"] == "Ready", seconds=30)
    crashed = running.wait_for(lambda line: line["phase"] == "Degraded", seconds=30)
    assert "exit code 9" in crashed["message"]
    told = len(running.lines())
    running.wait_for(lambda line: line["phase"] == "Ready", after=told, seconds=30)
    looping = running.wait_for(
        lambda line: line["reason"] == "CrashLoopBackOff", after=told, seconds=30
    )
    assert looping["replicas"] == 0


def test_an_engine_that_exits_at_once_ends_the_run(up: Start, manifests: Manifests) -> None:
    manifests.scaling["min"] = 1
    manifests.command("sh", "-c", "echo no such model >&2; exit 4")
    running = up(manifests.write())
    assert running.process.wait(timeout=60) == 1
    error = running.err.read_text()
    assert error.startswith(f"noctaya: {manifests.folder}/runtime.yaml:")
    assert "metadata.annotations.serving.noctaya.io/local-command" in error
    assert "exited with code 4" in error
    assert "no such model" in error
    assert error.count("\n") == 1


def test_one_broken_engine_leaves_the_other_service_alone(up: Start, manifests: Manifests) -> None:
    good = manifests.write()
    manifests.folder = manifests.folder.with_name("broken")
    manifests.folder.mkdir()
    manifests.service["metadata"]["name"] = "broken"
    manifests.service["spec"]["runtime"]["name"] = "broken"
    manifests.runtime["metadata"]["name"] = "broken"
    manifests.scaling["min"] = 1
    manifests.command("false")
    running = up(good, manifests.write())
    running.wait_for(
        lambda line: line["service"] == "broken" and line["phase"] == "Degraded", seconds=30
    )
    running.wait_for(
        lambda line: line["service"] == "echo" and line["phase"] == "ScaledToZero", seconds=30
    )
    assert running.client.completions.create(model="echo", prompt="Hello").choices
    told = {line["service"]: line["endpoint"] for line in running.lines()}
    assert told == {
        "echo": f"http://127.0.0.1:{running.port}/v1",
        "broken": f"http://127.0.0.1:{running.port + 1}/v1",
    }


def test_a_killed_gateway_comes_back_on_its_port(up: Start, manifests: Manifests) -> None:
    running = up(manifests.write())
    running.wait_until_it_sleeps()
    (gateway,) = (one for one in running.tree() if "gateway" in one.cmdline())
    told = len(running.lines())
    gateway.kill()
    running.wait_for(lambda line: line["phase"] == "Pending", after=told, seconds=30)
    running.wait_until_it_sleeps(after=told)
    began = time.monotonic()
    assert running.client.completions.create(model="echo", prompt="Hello").choices
    assert time.monotonic() - began < 20


def test_a_wrong_path_for_the_health_check_is_told(up: Start, manifests: Manifests) -> None:
    probe = {"httpGet": {"path": "/healthy", "port": "http"}}
    manifests.runtime["spec"]["health"] = {"readiness": probe}
    manifests.scaling["min"] = 1
    running = up(manifests.write())
    told = "GET /healthy is answered 404: see spec.health.readiness of its InferenceRuntime."
    running.wait_for(lambda line: told in line["message"], seconds=30)
    assert running.end() == 0
