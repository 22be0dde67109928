"""The ``noctaya`` command line."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from local.errors import Problem


def main(argv: Sequence[str] | None = None) -> None:
    flags = _parser().parse_args(argv)
    try:
        # Late: --help and a wrong flag do not wait for everything that a run needs.
        from local import up

        up.up(flags.paths, port=flags.port, as_json=flags.output == "json", logs=flags.log_dir)
    except KeyboardInterrupt:
        sys.exit(130)  # Before anything was started; as a shell counts it.
    except Problem as e:
        for line in e.lines:
            print(f"noctaya: {line}", file=sys.stderr)
        sys.exit(e.exit_code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="noctaya", description="LLMServices on this machine, without a cluster."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser(
        "up",
        help="run the LLMServices of some manifests",
        description="Runs the LLMServices of some manifests until Ctrl-C. Each has an endpoint of "
        "its own; its engine starts when a request comes, and ends when it is idle.",
    )
    up.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="YAML files, or folders of them, with LLMServices and InferenceRuntimes",
    )
    up.add_argument(
        "--port",
        type=_port,
        default=8080,
        help="of the first endpoint; the next one gets the next port (default: %(default)s)",
    )
    up.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="json: one object a line for every change (default: %(default)s)",
    )
    up.add_argument(
        "--log-dir",
        type=Path,
        metavar="DIR",
        help="keep the logs of gateways and engines here (default: gone with the run)",
    )
    return parser


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = 0
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text}: expected 1..65535")
    return port
