"""From rendered Deployments to programs, probes and drains."""

import sys
from pathlib import Path
from typing import Any

from hooks.api import llmservice, runtime
from local import plan
from local.drain import Drain
from local.kubelet import Probe


def deployment(**container: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", **container}]}}}}


def test_an_engine_gets_the_rendered_arguments_and_environment_and_its_own_port() -> None:
    rendered = deployment(
        args=["--model", "$(MODEL)", "--port=$(PORT)"],
        env=[
            {"name": "MODEL", "value": "m"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
    )
    inherited = {"PATH": "p", "TOKEN": "from outside", "MODEL": "other"}
    program = plan.engine(rendered, ["vllm", "serve"], inherited)(4321)
    assert program.argv == ["vllm", "serve", "--model", "m", "--port=4321"]
    assert program.env == {
        "PATH": "p",
        "TOKEN": "from outside",
        "MODEL": "m",
        "HOST": "127.0.0.1",
        "PORT": "4321",
    }


def test_a_gateway_listens_where_this_machine_says() -> None:
    rendered = deployment(args=["--service=m", "--served-model=a$$b"])
    start = plan.gateway(
        rendered, {}, scaler="127.0.0.1:9", replicas=Path("list.json"), api_key=None
    )
    program = start(8080)
    assert program.argv[:4] == [sys.executable, "-P", "-m", "gateway"]
    assert program.argv[4:6] == ["--service=m", "--served-model=a$b"]
    assert " ".join(program.argv[6:]) == (
        "--listen 127.0.0.1:8080 --scaler-listen 127.0.0.1:9 --replicas-from file:list.json "
        "--accept-after-term-seconds 0"
    )


def test_a_gateway_reads_its_key_where_this_machine_has_it() -> None:
    rendered = deployment(args=["--api-key-file=/etc/noctaya/api-key/key"])
    start = plan.gateway(rendered, {}, scaler="", replicas=Path("list.json"), api_key=Path("k"))
    assert start(8080).argv[-2:] == ["--api-key-file", "k"]


def test_the_served_model_is_the_first_that_the_gateway_was_told() -> None:
    assert plan.served_model(deployment(args=["--served-model=a", "--served-model=b"])) == "a"
    assert plan.served_model(deployment(args=["--service=m"])) is None


def test_a_readiness_request_is_taken_with_kubernetes_defaults() -> None:
    assert plan.probe(deployment(readinessProbe={"httpGet": {"path": "/h", "port": 1}})) == Probe(
        path="/h", period_seconds=10, failure_threshold=3
    )
    probe = {
        "httpGet": {
            "path": "/h",
            "scheme": "HTTPS",
            "httpHeaders": [{"name": "a", "value": "b"}],
        },
        "periodSeconds": 1,
        "failureThreshold": 2,
    }
    assert plan.probe(deployment(readinessProbe=probe)) == Probe(
        path="/h", tls=True, headers=(("a", "b"),), period_seconds=1, failure_threshold=2
    )
    assert plan.probe(deployment(readinessProbe={"exec": {"command": ["true"]}})) is None


def test_a_drain_is_what_runtime_and_service_say() -> None:
    service = llmservice.LLMServiceSpec.model_validate(
        {
            "model": {"source": {"uri": "hf://a/b"}},
            "runtime": {"name": "r"},
            "scaling": {"drainTimeout": "20s"},
        }
    )

    def drained(**changes: Any) -> Drain:
        spec = {
            "vendor": "nvidia",
            "container": {"image": "i", "port": {}},
            "accelerator": {"resourceName": "nvidia.com/gpu"},
            **changes,
        }
        return plan.drained(service, runtime.InferenceRuntimeSpec.model_validate(spec))

    on = {"preStopDrain": True}
    assert drained() == Drain(seconds=0)
    assert drained(lifecycle=on) == Drain(seconds=20)
    assert drained(lifecycle=on, metrics={"queueDepth": "w"}) == Drain(seconds=20)
    assert drained(lifecycle=on, metrics={"queueDepth": "w", "running": "r"}) == Drain(
        seconds=20, metrics_path="/metrics", gauges=("r", "w")
    )


def test_a_device_is_whatever_is_not_cpu_or_memory() -> None:
    def holds(**limits: str) -> bool:
        return plan.holds_device(deployment(resources={"limits": limits}))

    assert not plan.holds_device(deployment())
    assert not holds(cpu="1", memory="1Gi")
    assert holds(**{"memory": "1Gi", "nvidia.com/gpu": "1"})
