"""The fetcher against real registries, clients and volumes, and hubs that say they are fakes."""

import collections.abc
import pathlib

import pytest

from tests.process.fetcher import gates, localhub


@pytest.fixture
def hub() -> collections.abc.Iterator[localhub.LocalHub]:
    """A fake hub without repositories."""
    with localhub.LocalHub() as running:
        yield running


@pytest.fixture
def cache(tmp_path: pathlib.Path) -> pathlib.Path:
    """An empty volume."""
    path = tmp_path / "cache"
    path.mkdir()
    return path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A certificate for 127.0.0.1 that no system trusts, with its key in the same file."""
    path = tmp_path_factory.mktemp("authority") / "both.pem"
    gates.certify(path)
    return path
