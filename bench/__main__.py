"""All benches but the cold start on the cluster, in turn: ``python -m bench [--write]``.

In a short form, which shows that they run; with ``--write`` in the long one, whose figures are
kept in ``docs/benchmarks.md``: 45 minutes, on a machine that should do nothing else.
"""

import argparse
import subprocess
import sys

SHORT = {
    "gateway": ("--rounds", "2"),
    "holds": ("--open", "2000", "--seconds", "10"),
    "demand": ("--count", "50"),
    "coldstart": ("--count", "20"),
    "soak": ("--minutes", "1", "--clients", "100"),
    "fetch": ("--rounds", "1", "--mib", "256"),
    "sync": ("--rounds", "100"),
}


def main() -> int:
    """The exit code: 1 where any of them missed a target."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--write", action="store_true", help="the long form, kept in docs/")
    write = parser.parse_args().write
    codes = []
    for name, short in SHORT.items():
        command = [sys.executable, "-m", f"bench.{name}", *(("--write",) if write else short)]
        codes.append(subprocess.run(command).returncode)
        print(flush=True)
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
