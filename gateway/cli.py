"""``noctaya-gateway``: flags in, ``Settings`` out. The flags are rendered by the sync hooks.

A flag given twice counts as its last occurrence, so that a caller can append overrides.
"""

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from gateway.settings import (
    ColdStart,
    FromEndpointSlices,
    FromFile,
    Listen,
    Readiness,
    Settings,
)

# Where the kubelet mounts the Pod's own account: token, ca.crt, namespace.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    settings = parse(sys.argv[1:] if argv is None else argv)
    # Only now: a usage error should not wait for the imports of a server.
    from gateway import program

    sys.exit(program.run(settings))


def parse(argv: Sequence[str]) -> Settings:
    """Exits with code 2 and one line on stderr where the flags do not make sense."""
    flags = _parser().parse_args(argv)
    return Settings(
        namespace=flags.namespace,
        service=flags.service,
        listen=flags.listen,
        scaler_listen=flags.scaler_listen,
        replicas_from=_replicas_from(flags.replicas_from, flags.service_account),
        backend_service=flags.backend_service or f"{flags.service}-backend",
        backend_port=flags.backend_port,
        readiness=flags.readiness,
        max_queue=flags.max_queue,
        cold_start=ColdStart(flags.cold_start),
        heartbeat_interval=flags.heartbeat_interval_seconds,
        data_heartbeats=flags.data_heartbeats,
        activation_timeout=flags.activation_timeout_seconds,
        min_replicas=flags.min_replicas,
        target=flags.target,
        drain_timeout=flags.drain_timeout_seconds,
        startup_budget=flags.startup_budget_seconds,
        served_models=frozenset(flags.served_model),
        inference_paths=frozenset(flags.inference_path),
        first_byte_timeout=flags.first_byte_timeout_seconds,
        idle_timeout=flags.idle_timeout_seconds,
        api_key_file=flags.api_key_file,
        scaler_tls=flags.scaler_tls_dir,
        aggregate=flags.aggregate,
        member=flags.member,
        held_bytes=flags.held_bytes,
        accept_after_term=flags.accept_after_term_seconds,
    )


class _OneLineParser(argparse.ArgumentParser):
    """A container's log shows one line of a crash loop best, so the usage is left out."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    p = _OneLineParser(
        prog="noctaya-gateway",
        description="Keeps an OpenAI-compatible endpoint alive while its model's backend sleeps.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--namespace", required=True, help="namespace of the LLMService")
    p.add_argument("--service", required=True, help="name of the LLMService")
    p.add_argument("--listen", type=_listen, default="0.0.0.0:8080", help="HTTP, host:port")
    p.add_argument("--scaler-listen", type=_listen, default="0.0.0.0:9090", help="gRPC, host:port")
    p.add_argument(
        "--replicas-from",
        default="endpointslices",
        metavar="endpointslices|file:PATH",
        help="where the backend's addresses are read",
    )
    p.add_argument("--backend-service", help="Service of the backend (default: SERVICE-backend)")
    p.add_argument("--backend-port", default="http", help="port name in the EndpointSlices")
    p.add_argument(
        "--readiness", type=_readiness, help="readiness request as JSON; none: not asked"
    )
    p.add_argument("--max-queue", type=_whole(1), default=100, help="requests admitted at once")
    p.add_argument("--cold-start", choices=[m.value for m in ColdStart], default="keepalive")
    p.add_argument("--heartbeat-interval-seconds", type=_positive, default=10.0)
    p.add_argument(
        "--data-heartbeats",
        action="store_true",
        help="heartbeats as chunks without content, for clients that count chunks only",
    )
    p.add_argument("--activation-timeout-seconds", type=_positive, default=300.0)
    p.add_argument("--min-replicas", type=_whole(0), default=0)
    p.add_argument("--target", type=_positive, default=10.0, help="demand per replica")
    p.add_argument("--drain-timeout-seconds", type=_seconds, default=120.0)
    p.add_argument("--startup-budget-seconds", type=_positive, default=600.0)
    p.add_argument("--served-model", action="append", default=[], metavar="NAME")
    p.add_argument("--inference-path", action="append", default=[], type=_path, metavar="/PATH")
    p.add_argument("--first-byte-timeout-seconds", type=_positive, default=600.0)
    p.add_argument("--idle-timeout-seconds", type=_positive, default=300.0)
    p.add_argument(
        "--accept-after-term-seconds",
        type=_seconds,
        default=5.0,
        help="new connections are taken for so long after SIGTERM",
    )
    p.add_argument(
        "--api-key-file",
        type=Path,
        metavar="FILE",
        help="clients must send the key in it as a Bearer token",
    )
    p.add_argument(
        "--scaler-tls-dir",
        type=Path,
        metavar="DIR",
        help="serve the scaler with tls.crt and tls.key, to clients that ca.crt vouches for",
    )
    p.add_argument(
        "--aggregate",
        action="store_true",
        help="be the scaler of all gateways of the service, and no gateway",
    )
    p.add_argument(
        "--member",
        action="store_true",
        help="be one of several gateways, for which an aggregate scaler answers KEDA",
    )
    p.add_argument(
        "--held-bytes",
        type=_whole(1),
        default=256 * 1024 * 1024,
        help="bodies of waiting requests that are kept, all together; beyond it the answer is 429",
    )
    p.add_argument("--service-account", type=Path, default=SERVICE_ACCOUNT, metavar="DIR")
    return p


def _listen(text: str) -> Listen:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not host:port")
    return Listen(host=host.removeprefix("[").removesuffix("]"), port=int(port))


def _replicas_from(text: str, account: Path) -> FromFile | FromEndpointSlices:
    if text == "endpointslices":
        return FromEndpointSlices(account=account)
    scheme, _, path = text.partition(":")
    if scheme == "file" and path:
        return FromFile(path=Path(path))
    _parser().error(f"--replicas-from {text!r}: expected endpointslices or file:PATH")


def _readiness(text: str) -> Readiness:
    try:
        probe = json.loads(text)
        headers = tuple((h["name"], h["value"]) for h in probe.get("headers") or ())
        readiness = Readiness(
            path=probe["path"], scheme=probe.get("scheme", "HTTP"), headers=headers
        )
        words = (readiness.path, readiness.scheme, *itertools.chain(*headers))
        if not all(isinstance(word, str) for word in words):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        expected = '{"path":"/health","scheme":"HTTP","headers":[{"name":"..","value":".."}]}'
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON like {expected}") from e
    if readiness.scheme not in ("HTTP", "HTTPS"):
        raise argparse.ArgumentTypeError(f"scheme {readiness.scheme!r}: expected HTTP or HTTPS")
    if not readiness.path.startswith("/"):
        raise argparse.ArgumentTypeError(f"path {readiness.path!r}: expected a leading /")
    return readiness


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a leading /")
    return text


def _whole(least: int) -> Callable[[str], int]:
    def parse_whole(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
        return int(text)

    return parse_whole


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def _positive(text: str) -> float:
    value = _seconds(text)
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value
