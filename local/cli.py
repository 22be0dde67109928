"""The ``noctaya`` command line."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from local.errors import Problem


def main(argv: Sequence[str] | None = None) -> None:
    flags = _parser().parse_args(argv)
    try:
        flags.run(flags)
    except BrokenPipeError:
        sys.exit(141)  # Whoever read has enough, as `head` does; as a shell counts it.
    except KeyboardInterrupt:
        sys.exit(130)  # Before anything was started; as a shell counts it.
    except Problem as e:
        for line in e.lines:
            print(f"noctaya: {line}", file=sys.stderr)
        sys.exit(e.exit_code)


# Imported late: --help and a wrong flag do not wait for everything that a run needs.


def _up(flags: argparse.Namespace) -> None:
    from local import up

    up.up(flags.paths, port=flags.port, as_json=flags.output == "json", logs=flags.log_dir)


def _render(flags: argparse.Namespace) -> None:
    from local import render

    render.run(flags.paths, os.environ)


def _replay(flags: argparse.Namespace) -> None:
    from local import replay

    replay.run(flags.request)


def _test(flags: argparse.Namespace) -> None:
    from local import fixtures

    fixtures.run(flags.folder)


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        print(f"noctaya {metadata.version('noctaya')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="noctaya", description="LLMServices on this machine, without a cluster."
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser(
        "up",
        help="run the LLMServices of some manifests",
        description="Runs the LLMServices of some manifests until Ctrl-C. Each has an endpoint of "
        "its own; its engine starts when a request comes, and ends when it is idle.",
    )
    up.set_defaults(run=_up)
    _add_paths(up)
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
    _add_offline_tools(commands)
    return parser


def _add_paths(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="YAML files, or folders of them, with LLMServices and InferenceRuntimes",
    )


def _add_offline_tools(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    render = commands.add_parser(
        "render",
        help="print the objects that a cluster would first get",
        description="Prints the children of the LLMServices of some manifests as YAML, with the "
        "ScaledObject that KEDA gets. Nothing is started.",
    )
    render.set_defaults(run=_render)
    _add_paths(render)
    replay = commands.add_parser(
        "replay",
        help="answer a recorded hook request, and say why",
        description="Prints what the hooks answer to a recorded request as YAML, with the reasons "
        "as comments.",
    )
    replay.set_defaults(run=_replay)
    replay.add_argument("request", type=Path, metavar="REQUEST.json")
    test = commands.add_parser(
        "test",
        help="hold the hooks' answers against expected ones",
        description="Answers each request.json in the folders of DIR and compares the answer with "
        "the expected.yaml beside it, in which fields may be left out.",
    )
    test.set_defaults(run=_test)
    test.add_argument("folder", type=Path, metavar="DIR")


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = 0
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text}: expected 1..65535")
    return port
