"""``python -m tests.process.clients`` makes `docs/client-table.md` again; with ``install`` it only
fetches the clients, which the tests would do when they first want them."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.process.clients import environments, page, stages, users


def main() -> int:
    try:
        if sys.argv[1:] == ["install"]:
            for name in users.PROCESSES:
                users.command(name)
            return 0
        return _write()
    except environments.Unavailable as e:
        print(e, file=sys.stderr)
        return 1


def _write() -> int:
    with tempfile.TemporaryDirectory() as folder:
        observed = asyncio.run(stages.observe(Path(folder)))
    for reason in observed.missing.values():
        raise environments.Unavailable(reason)
    for error in observed.failed.values():
        raise error
    page.PATH.write_text(page.render(observed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
