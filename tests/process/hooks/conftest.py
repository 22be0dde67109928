"""One server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.hooks.serving import Server, free_port, start, wait_until_ready
from tests.pure.hooks.world import SETTINGS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("hooks") / "log"
    port = free_port()
    environment = {
        "NOCTAYA_FETCHER_IMAGE": SETTINGS.fetcher_image,
        "NOCTAYA_GATEWAY_IMAGE": SETTINGS.gateway_image,
        "NOCTAYA_HOST_PATH_ROOT": SETTINGS.host_path_root,
    }
    process = start(port, log, environment)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(url, process, log)
        yield Server(url, log)
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0
