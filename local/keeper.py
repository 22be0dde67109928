"""A process beside ``noctaya`` that outlives it by a moment: it ends what a killed one left.

    python -I -S keeper.py FOLDER...

It reads ``+<process group>`` and ``-<process group>`` from stdin, one a line. When stdin ends,
because ``noctaya`` has stopped or was killed, it kills the groups that are still in its book and
removes the folders. A group and not one process: an engine's own workers would go on holding the
accelerator. This file imports nothing of ours, so that it starts in a few milliseconds.
"""

import contextlib
import os
import shutil
import signal
import sys


def main() -> None:
    groups = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for folder in sys.argv[1:]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
