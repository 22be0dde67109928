"""``python -m tests.cluster.standin --kubeconfig FILE``: play Metacontroller until SIGTERM."""

from __future__ import annotations

import argparse
import logging
import pathlib
import signal
import sys
import time

from tests.cluster.standin.client import ApiError, Client
from tests.cluster.standin.informer import Informers
from tests.cluster.standin.manager import Manager

_log = logging.getLogger("standin")


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.standin",
        description="A stand-in for Metacontroller, for tests only.",
    )
    parser.add_argument("--kubeconfig", type=pathlib.Path, required=True)
    args = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _log.info("this is a stand-in for Metacontroller: test support, not the real program")
    client = Client(args.kubeconfig)
    while True:
        try:
            Manager(Informers(client)).run()
        except ApiError as e:
            _log.info("waiting for Metacontroller's resources: %s", e)
            time.sleep(1.0)


if __name__ == "__main__":
    sys.exit(main())
