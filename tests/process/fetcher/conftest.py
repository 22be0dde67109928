"""The fetcher against real registries, clients and volumes, and hubs that say they are fakes."""

import collections.abc
import pathlib

import pytest

from tests.process.fetcher import localhub


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
