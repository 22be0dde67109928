"""What a service asks of a cluster alone does not keep it from running on one machine."""

from tests.process.local.conftest import Manifests, Start
from tests.process.local.test_rounds import ask


def test_several_gateways_run_as_one_and_the_scaler_is_asked_in_plain_text(
    up: Start, manifests: Manifests
) -> None:
    annotations = manifests.service["metadata"].setdefault("annotations", {})
    annotations["serving.noctaya.io/gateway-replicas"] = "3"
    annotations["serving.noctaya.io/data-heartbeats"] = "true"
    tls = {"serverSecretName": "scaler", "authenticationRef": {"name": "keda"}}
    manifests.scaling["externalScaler"] = {"tls": tls}
    running = up(manifests.write())
    running.wait_until_it_sleeps()
    assert ask(running, stream=True).endswith("Hello")
    gateways = [process for process in running.tree() if "gateway" in process.cmdline()]
    assert len(gateways) == 1
    one, plain = running.err.read_text().splitlines()
    assert "gateway-replicas: one gateway runs here, whatever this says" in one
    assert "externalScaler.tls: the scaler is asked in plain text here" in plain
