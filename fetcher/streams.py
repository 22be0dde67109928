"""Reads a stretch of a remote file, across cuts, stalls and servers that answer something else."""

import collections.abc
import re
import threading
import time

from fetcher import errors, plans, retry, sources, transport, uris

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
# The most that one read returns, which is then hashed and written at once.
_READ_BYTES = 1024 * 1024
# A try that brought less than this is counted as fruitless: a server that cuts after every few
# bytes would else be asked for ever.
_PROGRESS_BYTES = 64 * 1024
# Below this average over one idle time a connection is as good as silent; a dial-up line has 7.
_SLOWEST_BYTES_PER_SECOND = 1024


class NoRanges(Exception):
    """The server answers a range with the whole file."""


class Reader:
    """Streams files of one source, for any number of threads."""

    def __init__(self, source: sources.Source, tries: retry.Tries, *, idle_seconds: float) -> None:
        self._source = source
        self._tries = tries
        self._idle_seconds = idle_seconds

    @property
    def stop(self) -> threading.Event:
        """Set when the run is ending."""
        return self._tries.stop

    def stretch(
        self, file: plans.RemoteFile, start: int, end: int
    ) -> collections.abc.Generator[memoryview, None, None]:
        """Yield bytes `start` to `end` in order.

        Raises `NoRanges` where only the whole file can be had; `whole` is for those.
        """
        position = start
        failures = 0
        while position < end:
            before = position
            try:
                with self._source.open(file, position, end) as answer:
                    limit = _promised(answer, file, position, end)
                    for view in self._views(answer, limit - position):
                        position += len(view)
                        yield view
            except errors.Transient as e:
                failures = 1 if position - before >= _PROGRESS_BYTES else failures + 1
                self._tries.failed(e, failures)

    def whole(
        self, file: plans.RemoteFile, start: int
    ) -> collections.abc.Generator[memoryview, None, None]:
        """Yield a file from `start` to its end, of a server that knows no ranges.

        Each try reads from the beginning and passes over what it yielded before.
        """
        position = start
        failures = 0
        while position < file.size:
            before = position
            try:
                with self._source.open(file, 0, file.size) as answer:
                    _promised(answer, file, 0, file.size)
                    read = 0
                    for view in self._views(answer, file.size):
                        fresh = view[max(0, position - read) :]
                        read += len(view)
                        position += len(fresh)
                        if fresh:
                            yield fresh
            except errors.Transient as e:
                failures = 1 if position - before >= _PROGRESS_BYTES else failures + 1
                self._tries.failed(e, failures)

    def _views(self, answer: transport.Answer, wanted: int) -> collections.abc.Iterator[memoryview]:
        """Exactly `wanted` bytes of a body; fewer is a cut, more is another file."""
        left = wanted
        window_ends, window_bytes = time.monotonic() + self._idle_seconds, 0
        while left:
            if self.stop.is_set():
                raise errors.Transient("the run is ending")
            block = answer.read_some(min(_READ_BYTES, left))
            if not block:
                shown = uris.without_secrets(answer.url)
                raise errors.Transient(f"{shown} was cut {left} bytes before its end")
            left -= len(block)
            window_bytes += len(block)
            yield memoryview(block)
            if (now := time.monotonic()) >= window_ends:
                if window_bytes < _SLOWEST_BYTES_PER_SECOND * self._idle_seconds:
                    shown = uris.without_secrets(answer.url)
                    raise errors.Transient(f"{shown} hardly sends any more", stalled=True)
                window_ends, window_bytes = now + self._idle_seconds, 0
        if answer.read_some(1):
            shown = uris.without_secrets(answer.url)
            raise errors.Mismatch(f"{shown} is longer than the {wanted} bytes that were promised")


def _promised(answer: transport.Answer, file: plans.RemoteFile, start: int, end: int) -> int:
    """Where the body will end, after a look at what its headers say it is."""
    shown = uris.without_secrets(answer.url)
    encoding = (answer.headers.get("Content-Encoding") or "identity").strip().lower()
    if encoding != "identity":
        raise errors.BadRemote(
            f"{shown} sends {encoding!r} though identity was asked for: a proxy changes the bytes"
        )
    if answer.content_type == "text/html" and not file.path.endswith((".html", ".htm")):
        raise errors.BadRemote(
            f"{shown} answers a web page where {file.path!r} was expected: a wrong address, a "
            "proxy or a login page stands in between"
        )
    if answer.status == 206:
        return _range_end(answer, file, start, end)
    if (start, end) != (0, file.size):
        raise NoRanges
    length = answer.headers.get("Content-Length")
    if length is not None and length != str(file.size):
        raise errors.Mismatch(
            f"{shown} has {length} bytes where {file.size} were promised for {file.path!r}: the "
            "listing and the file do not belong together"
        )
    return end


def _range_end(answer: transport.Answer, file: plans.RemoteFile, start: int, end: int) -> int:
    said = answer.headers.get("Content-Range") or ""
    match = _CONTENT_RANGE.fullmatch(said.strip())
    first, last, total = (int(group) for group in match.groups()) if match else (-1, -1, -1)
    # A server may send less than was asked for; the rest is asked for again.
    if not (first == start and start <= last < end and total == file.size):
        raise errors.BadRemote(
            f"{uris.without_secrets(answer.url)} answers range {said!r} where bytes "
            f"{start}-{end - 1}/{file.size} were asked for"
        )
    return last + 1
