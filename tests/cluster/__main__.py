"""The rig by hand; ``python -m tests.cluster --help`` lists what it can do."""

import argparse
import os
import sys
import time

from tests.cluster import cluster, control_plane, errors, layout, noctaya, programs, rig


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster", description="A one-node Kubernetes cluster for tests."
    )
    parser.add_argument("--instance", default="", help="a suffix, for a rig beside the usual one")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="start the cluster, or say that it runs")
    start.add_argument(
        "--leashed",
        action="store_true",
        help="stay in the foreground; the cluster ends with this process, however it ends",
    )
    start.add_argument("--bare", action="store_true", help="without the project's own images")
    commands.add_parser("down", help="stop the cluster and remove all that it made")
    commands.add_parser("status", help="what is running")
    commands.add_parser("build", help="build programs and images into the cache, start nothing")
    commands.add_parser("images", help="build the project's images and load them into the node")
    commands.add_parser("install", help="KEDA, Noctaya and a Metacontroller, as tests have them")
    tool = commands.add_parser("kubectl", help="kubectl as the cluster's admin")
    tool.add_argument("arguments", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    instance = layout.instance(chosen.instance)
    try:
        return _run(chosen, instance)
    except errors.RigError as e:
        sys.stderr.write(f"{e}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _run(chosen: argparse.Namespace, instance: layout.Instance) -> int:
    command: str = chosen.command
    if command == "up":
        rig.up(instance, _say, leashed=chosen.leashed)
        if not chosen.bare:
            rig.load_own_images(instance, _say)
        _explain(instance, chosen.instance)
        if chosen.leashed:
            _wait_to_be_stopped(instance)
    elif command == "down":
        rig.down(instance)
        _say(f"{instance.name} is down")
    elif command == "status":
        _explain(instance, chosen.instance)
    elif command == "build":
        rig.prepare(_say)
    elif command == "images":
        rig.load_own_images(instance, _say)
    elif command == "install":
        _install(instance)
    else:
        _kubectl(instance, chosen.arguments)
    return 0


def _explain(instance: layout.Instance, suffix: str) -> None:
    if not rig.running(instance):
        _say(f"{instance.name} is not running")
        return
    me = "python -m tests.cluster" + (f" --instance {suffix}" if suffix else "")
    names = [program.name for program in programs.recorded(instance) if program.alive()]
    _say(
        f"running: {', '.join(names)}\n"
        f"logs and audit log: {instance.state}\n"
        f"{me} install   (KEDA, Noctaya and a Metacontroller)\n"
        f"{me} kubectl get pods -A\n"
        f"{me} down"
    )


def _install(instance: layout.Instance) -> None:
    held = cluster.Cluster(instance)
    held.keda_install()
    _say("KEDA runs")
    noctaya.install(held)
    _say("the hooks answer")
    noctaya.start_metacontroller(held)
    _say("Metacontroller, or its stand-in, runs")


def _kubectl(instance: layout.Instance, arguments: list[str]) -> None:
    if not rig.running(instance):
        raise errors.RigError("no rig is running: start one with `python -m tests.cluster up`")
    argv = [str(word) for word in control_plane.kubectl_command(instance)] + arguments
    os.execvp(argv[0], argv)


def _wait_to_be_stopped(instance: layout.Instance) -> None:
    try:
        while rig.running(instance):
            time.sleep(0.5)
    except KeyboardInterrupt:
        rig.down(instance)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
