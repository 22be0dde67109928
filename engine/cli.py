"""``noctaya-echo``: the command line. Flags that vLLM has too are named as vLLM names them."""

import argparse
import math
import os
import sys
from collections.abc import Sequence

from engine.config import Config

DEFAULT_MODEL = "noctaya-echo"


def main(argv: Sequence[str] | None = None) -> None:
    config = parse(sys.argv[1:] if argv is None else argv, os.environ)
    # Late, so that a wrong flag is reported without loading an HTTP server first.
    from engine import life

    sys.exit(life.run(config))


def parse(argv: Sequence[str], environ: os._Environ[str] | dict[str, str]) -> Config:
    parser = argparse.ArgumentParser(
        prog="noctaya-echo",
        description="An OpenAI-compatible engine that echoes the prompt, and says so.",
    )
    add = parser.add_argument
    add("--host", default=environ.get("HOST") or "0.0.0.0")  # noqa: S104  A server in a Pod.
    add("--port", type=_port, default=environ.get("PORT") or "8000")
    add("--model", default=DEFAULT_MODEL, metavar="NAME")
    add("--served-model-name", nargs="+", metavar="NAME", help="default: the model")
    add("--load-seconds", type=_seconds, default=0.0, help="the port opens after this long")
    add("--time-to-first-token-seconds", type=_seconds, default=0.0)
    add("--tokens-per-second", type=_seconds, default=0.0, help="0: as fast as it can")
    add("--max-model-len", type=_count, default=32768, metavar="TOKENS")
    add("--max-num-seqs", type=_count, default=256, metavar="N", help="requests that run at once")
    add(
        "--shutdown-timeout-seconds",
        type=_seconds,
        default=0.0,
        help="running requests may finish for this long after SIGTERM; 0 aborts them, as in vLLM",
    )
    add("--crash-on-start", action="store_true")
    add("--crash-after-seconds", type=_seconds, default=None)
    add("--crash-exit-code", type=int, default=1, choices=range(256), metavar="0..255")
    flags = parser.parse_args(argv)
    return Config(
        host=flags.host,
        port=flags.port,
        model=flags.model,
        served_names=tuple(flags.served_model_name or [flags.model]),
        load_seconds=flags.load_seconds,
        time_to_first_token_seconds=flags.time_to_first_token_seconds,
        tokens_per_second=flags.tokens_per_second,
        max_model_len=flags.max_model_len,
        max_num_seqs=flags.max_num_seqs,
        shutdown_timeout_seconds=flags.shutdown_timeout_seconds,
        crash_on_start=flags.crash_on_start,
        crash_after_seconds=flags.crash_after_seconds,
        crash_exit_code=flags.crash_exit_code,
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not (0 <= value < math.inf):
        raise argparse.ArgumentTypeError(f"{text}: expected a number of at least 0")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected at least 1")
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"{text}: expected 1..65535")
    return value
