"""KEDA and the scaler that know each other by certificates: right, wrong, and renewed."""

import contextlib
import json
import pathlib
import socket
import ssl

import pytest

from tests.cluster import certificates
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import Object
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import PATIENCE_SECONDS, Endpoint

SERVER_SECRET, CLIENT_SECRET, REFERENCE = "scaler-server", "scaler-client", "scaler"

# For so long a Pod may take to start before the status calls it trouble.
STUCK_SECONDS = 120 + PATIENCE_SECONDS

# The kubelet looks again for a Secret that was not there ever more seldom, up to every two minutes.
MOUNT_SECONDS = 130 + PATIENCE_SECONDS

OVERLAY: Object = {
    "spec": {
        "scaling": {
            "externalScaler": {
                "tls": {
                    "serverSecretName": SERVER_SECRET,
                    "authenticationRef": {"name": REFERENCE},
                }
            }
        }
    }
}


class Party:
    """An authority of its own, and what it issues for one service."""

    def __init__(self, folder: pathlib.Path, service: Endpoint) -> None:
        self.authority = certificates.Authority(folder)
        self.authority.create()
        self.host = f"{service.name}-scaler.{service.namespace}.svc"
        self.issue()

    def issue(self) -> None:
        """A pair of certificates, in place of an earlier one."""
        self.authority.issue("server", "/CN=scaler", f"DNS:{self.host}")
        self.authority.issue("client", "/CN=keda")

    def file(self, name: str) -> pathlib.Path:
        return self.authority.folder / name

    def texts(self, owner: str) -> dict[str, str]:
        """A Secret's content for the server or the client."""
        files = {"ca.crt": "ca.crt", "tls.crt": f"{owner}.crt", "tls.key": f"{owner}.key"}
        return {key: self.file(name).read_text() for key, name in files.items()}


@pytest.fixture(scope="module")
def trusted(start: Start) -> Endpoint:
    return start("trusted", overlay=OVERLAY)


@pytest.fixture(scope="module")
def distrusted(start: Start) -> Endpoint:
    return start("distrusted", overlay=OVERLAY)


@pytest.fixture(scope="module")
def right(trusted: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Party:
    party = Party(tmp_path_factory.mktemp("right") / "pki", trusted)
    _write(trusted, server=party, client=party)
    return party


@pytest.fixture(scope="module")
def wrong(distrusted: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> tuple[Party, Party]:
    """The scaler's own, and a stranger who issued what KEDA shows."""
    own = Party(tmp_path_factory.mktemp("own") / "pki", distrusted)
    stranger = Party(tmp_path_factory.mktemp("stranger") / "pki", distrusted)
    _write(distrusted, server=own, client=own)
    shown = {**stranger.texts("client"), "ca.crt": own.texts("client")["ca.crt"]}
    distrusted.cluster.apply(builders.secret(distrusted.namespace, CLIENT_SECRET, shown))
    return own, stranger


@pytest.fixture(scope="module")
def foresighted(start: Start) -> Endpoint:
    """Several gateways from the start, and no Secret for their scaler."""
    gateways = {"metadata": {"annotations": {"serving.noctaya.io/gateway-replicas": "2"}}}
    return start("foresighted", overlay=builders.merged(OVERLAY, gateways))


@pytest.fixture(scope="module")
def hasty(start: Start) -> Endpoint:
    """In use when certificates are asked for, and before there are any."""
    service = start("hasty")
    service.wait_armed()
    change = json.dumps(OVERLAY)
    where = (f"llmservice/{service.name}", f"-n={service.namespace}")
    service.cluster.kubectl("patch", *where, "--type=merge", f"--patch={change}")
    return service


@pytest.fixture(scope="module", autouse=True)
def _all_at_once(
    right: Party, wrong: tuple[Party, Party], foresighted: Endpoint, hasty: Endpoint
) -> None:
    """Their starts overlap."""


def test_several_gateways_whose_scaler_has_no_certificate_name_the_secret_that_is_enough(
    foresighted: Endpoint, tmp_path: pathlib.Path
) -> None:
    foresighted.wait_condition("Ready", "False", "ScalerStarting")
    foresighted.cluster.wait(
        "the Secret is named",
        lambda: f"no Secret {SERVER_SECRET}" in foresighted.condition("Ready")["message"],
    )
    party = Party(tmp_path / "pki", foresighted)
    _write(foresighted, server=party, client=party)
    foresighted.wait_condition("AutoscalingReady", "True", "ScaledObjectReady", MOUNT_SECONDS)
    foresighted.wait_armed()
    assert foresighted.ask("By way of the scaler").finished


def test_keda_with_the_right_certificate_wakes_the_model(trusted: Endpoint, right: Party) -> None:
    trusted.wait_armed()
    trigger = trusted.scaled_object()["spec"]["triggers"][0]
    assert trigger["authenticationRef"]["name"] == REFERENCE
    assert trusted.ask("In confidence").finished
    assert trusted.replica_numbers() == [0, 1]


def test_nobody_else_is_answered(trusted: Endpoint, right: Party) -> None:
    assert _serial(trusted, right, right) > 0
    with pytest.raises(OSError, match=r"(?i)certificate|alert|closed|reset"):
        _serial(trusted, right, None)


def test_a_renewed_certificate_is_served_without_a_restart(trusted: Endpoint, right: Party) -> None:
    (before,) = trusted.pods("gateway")
    old = _serial(trusted, right, right)
    right.issue()
    _write(trusted, server=right, client=right)
    trusted.cluster.wait(
        "the new certificate is served", lambda: _serial(trusted, right, right) != old, 60
    )
    (after,) = trusted.pods("gateway")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    trusted.wait_armed()
    assert trusted.ask("As before").finished


def test_another_authority_counts_from_the_next_gateway_on(
    trusted: Endpoint, right: Party, tmp_path: pathlib.Path
) -> None:
    another = Party(tmp_path / "pki", trusted)
    _write(trusted, server=another, client=another)
    _replace_gateway(trusted)
    trusted.wait_condition("AutoscalingReady", "True", "ScaledObjectReady")

    def armed() -> bool:
        with contextlib.suppress(OSError):
            return _serial(trusted, another, another) > 0 and trusted.scaler()["scalerConnected"]
        return False

    trusted.cluster.wait("KEDA is connected by the other authority's certificates", armed)
    assert trusted.ask("With another seal").finished


def test_keda_with_a_strangers_certificate_is_refused_in_words_until_it_has_another(
    distrusted: Endpoint, wrong: tuple[Party, Party]
) -> None:
    own, stranger = wrong

    def told() -> bool:
        seen = distrusted.condition("AutoscalingReady")
        assert seen["status"] == "False", seen
        # KEDA's own words, which know nothing of certificates.
        assert "no metric specs returned from scalers" in seen["message"], seen
        return True

    distrusted.cluster.wait("the status says that KEDA is refused", told)
    with pytest.raises(OSError, match=r"(?i)certificate|alert|closed|reset"):
        _serial(distrusted, own, stranger)
    answer = distrusted.ask("Any time soon?")
    assert answer.events[-1]["error"]["code"] == "not_activatable"
    assert distrusted.replica_numbers() == [0]
    _write(distrusted, server=own, client=own)
    failures = _failures(distrusted)
    # KEDA keeps what it read for as long as the ScaledObject's spec is the same, and that follows
    # the scaler's outages.
    before = distrusted.scaled_object()["spec"]
    _have_keda_look(distrusted, "true")
    distrusted.cluster.wait("KEDA has failed again", lambda: _failures(distrusted) > failures)
    told()
    assert distrusted.scaled_object()["spec"] == before
    _replace_gateway(distrusted)

    def renewed() -> bool:
        with contextlib.suppress(OSError):
            return (
                _serial(distrusted, own, own) > 0 and distrusted.scaled_object()["spec"] != before
            )
        return False

    distrusted.cluster.wait("the ScaledObject is written anew", renewed)
    # A look that came before the node's proxy knew the new gateway has failed, and KEDA takes
    # longer after each failure.
    _have_keda_look(distrusted, None)
    distrusted.wait_condition("AutoscalingReady", "True", "ScaledObjectReady")
    distrusted.wait_armed()
    assert distrusted.ask("And now?").finished


def test_a_certificate_that_is_asked_for_too_early_leaves_keda_with_whom_it_has(
    hasty: Endpoint, tmp_path: pathlib.Path
) -> None:
    def told() -> bool:
        seen = hasty.condition("AutoscalingReady")
        assert f"no Secret {SERVER_SECRET}" in seen["message"], seen
        return bool(seen["status"] == "True")

    hasty.cluster.wait("the status names the Secret", told, STUCK_SECONDS)
    since = hasty.cluster.audit.mark()
    assert hasty.ask("In the clear").finished
    hasty.wait_asleep()
    assert hasty.replica_numbers(since) == [1, 0]
    assert "authenticationRef" not in hasty.scaled_object()["spec"]["triggers"][0]

    party = Party(tmp_path / "pki", hasty)
    _write(hasty, server=party, client=party)

    def secured() -> bool:
        return "authenticationRef" in hasty.scaled_object()["spec"]["triggers"][0]

    hasty.cluster.wait("KEDA is told of the certificates", secured, MOUNT_SECONDS)
    hasty.wait_condition("AutoscalingReady", "True", "ScaledObjectReady")
    hasty.wait_armed()

    def served() -> bool:
        # For a moment the Service may still lead to the gateway that was replaced.
        with contextlib.suppress(OSError):
            return _serial(hasty, party, party) > 0
        return False

    hasty.cluster.wait("the certificate is served", served)
    assert hasty.ask("In confidence").finished
    assert "Secret" not in hasty.condition("AutoscalingReady")["message"]


def _write(service: Endpoint, *, server: Party, client: Party) -> None:
    """Both Secrets, and the object by which KEDA finds its own."""
    parameters = {"caCert": "ca.crt", "tlsClientCert": "tls.crt", "tlsClientKey": "tls.key"}
    reference = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": {"namespace": service.namespace, "name": REFERENCE},
        "spec": {
            "secretTargetRef": [
                {"parameter": parameter, "name": CLIENT_SECRET, "key": key}
                for parameter, key in parameters.items()
            ]
        },
    }
    service.cluster.apply(
        builders.secret(service.namespace, SERVER_SECRET, server.texts("server")),
        builders.secret(service.namespace, CLIENT_SECRET, client.texts("client")),
        reference,
    )


def _replace_gateway(service: Endpoint) -> None:
    """Delete the service's one gateway, as its administrator would."""
    (gateway,) = service.pods("gateway")
    name = gateway["metadata"]["name"]
    service.cluster.kubectl("delete", "pod", name, f"-n={service.namespace}")


def _failures(service: Endpoint) -> int:
    """How often KEDA has said that it cannot ask the service's scaler."""
    log = service.cluster.instance.log("keda-operator").read_text(errors="replace")
    lines = (line for line in log.splitlines() if service.namespace in line)
    return sum("no metric specs returned from scalers" in line for line in lines)


def _have_keda_look(service: Endpoint, paused: str | None) -> None:
    """Have KEDA look at the ScaledObject at once, by an annotation of its own that does no harm."""
    change = "paused-scale-in-" if paused is None else f"paused-scale-in={paused}"
    where = (f"scaledobject/{service.name}", f"-n={service.namespace}")
    service.cluster.kubectl("annotate", *where, f"autoscaling.keda.sh/{change}")


def _serial(service: Endpoint, server: Party, client: Party | None) -> int:
    """The serial number of what the scaler shows to a client; an OSError for one it refuses."""
    context = ssl.create_default_context(cafile=server.file("ca.crt"))
    context.set_alpn_protocols(["h2"])
    if client is not None:
        context.load_cert_chain(client.file("client.crt"), client.file("client.key"))
    address = (service.cluster.address(server.host), 9090)
    with (
        service.cluster.inside(),
        socket.create_connection(address, timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=server.host) as secured,
    ):
        # A client is refused only after its own handshake is done.
        if not secured.recv(1):
            raise ConnectionResetError("the scaler closed the connection")
        shown = secured.getpeercert()
        assert shown is not None
        return int(str(shown["serialNumber"]), 16)
