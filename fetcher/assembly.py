"""One file that is being written: parts arrive in any order, bytes are hashed and written in order.

What is on disk is therefore always a prefix of the file, which makes a killed run's leftovers
simple to judge: hash what is there and go on. A part that is ahead waits in memory; the scheduler
bounds how many may.
"""

import collections.abc
import os
import pathlib
import threading

from fetcher import disk, errors, hashing, plans

# What a hash is fed at a time: larger than hashlib's threshold for releasing the interpreter,
# small enough to stay in a core's cache between receiving, hashing and writing.
BLOCK_BYTES = 1024 * 1024


# After how many bytes a file's pages are sent to the disk while the download goes on. The kernel
# alone may wait until gigabytes are dirty, all of which the fsync at the end would then wait for.
_FLUSH_BYTES = 64 * 1024 * 1024


class Part:
    """A claimed stretch of a file. Owned by one worker until `Assembly.done`.

    `ahead` says that it was claimed to be held in memory until its turn comes.
    """

    def __init__(self, start: int, end: int, *, ahead: bool) -> None:
        self.start = start
        self.end = end
        self.ahead = ahead
        self.complete = False
        self._held: bytearray | None = None
        self._filled = 0

    def keep(self, view: memoryview) -> None:
        """Hold bytes that cannot be written yet."""
        if self._held is None:
            self._held = bytearray(self.end - self.start)
        self._held[self._filled : self._filled + len(view)] = view
        self._filled += len(view)

    def take(self) -> memoryview:
        """The held bytes, which are then no longer held."""
        held = memoryview(self._held)[: self._filled] if self._held is not None else memoryview(b"")
        self._held, self._filled = None, 0
        return held


class Assembly:
    """A file in the partial folder. `advance` is told of each byte that is hashed and written."""

    def __init__(
        self,
        file: plans.RemoteFile,
        path: pathlib.Path,
        *,
        advance: collections.abc.Callable[[int], None],
        may_write: collections.abc.Callable[[], None],
    ) -> None:
        self.file = file
        self.path = path
        self.written = 0
        self.resumed = 0
        self._advance = advance
        self._may_write = may_write
        self._flushed = 0
        self._lock = threading.Lock()
        self._parts: dict[int, Part] = {}
        self._hash = hashing.start(file.proof, file.size)
        self._fd = -1

    def open(self, *, resume: bool) -> None:
        """Start the file, or take up the prefix that is there."""
        with disk.named(self.path):
            if resume and os.path.lexists(self.path) and self._take_up():
                return
            self.path.unlink(missing_ok=True)
            self._fd = disk.open_new(self.path)

    def claim(self, start: int, end: int, *, ahead: bool) -> Part:
        """Announce a stretch. Stretches are claimed in order."""
        part = Part(start, end, ahead=ahead)
        with self._lock:
            self._parts[start] = part
        return part

    def accept(self, part: Part, view: memoryview) -> None:
        """Take a part's next bytes: write them if their turn has come, hold them if not."""
        with self._lock:
            if part.start <= self.written:
                self._write(part.take())
                self._write(view)
            else:
                part.keep(view)

    def done(self, part: Part) -> list[Part]:
        """A part is complete: write what its end sets free. Returns the parts that this ends."""
        with self._lock:
            part.complete = True
            ended: list[Part] = []
            while (first := self._next()) is not None:
                self._write(first.take())
                if not first.complete:
                    break
                del self._parts[first.start]
                ended.append(first)
            return ended

    def forget_parts(self) -> list[Part]:
        """Drop every stretch that is not written, to start over from what is; returns them."""
        with self._lock:
            dropped = list(self._parts.values())
            self._parts.clear()
            return dropped

    def finish(self) -> None:
        """Compare the hash, make the bytes durable and close. The file is removed on a mismatch."""
        found = self._hash.hexdigest()
        if found != self.file.proof.hex:
            self.close()
            self.path.unlink(missing_ok=True)
            raise errors.Mismatch(
                f"{self.file.path!r} has {self.file.proof.algorithm} {found} where "
                f"{self.file.proof.hex} was promised: the source changed or damages it; report it "
                "there, then stage again"
            )
        with disk.named(self.path):
            os.fsync(self._fd)
        self.close()

    def close(self) -> None:
        """Let go of the descriptor; what is written stays."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _next(self) -> Part | None:
        """The part that the next byte to write belongs to."""
        if not self._parts:
            return None
        first = self._parts[min(self._parts)]
        return first if first.start <= self.written else None

    def _write(self, view: memoryview) -> None:
        for offset in range(0, len(view), BLOCK_BYTES):
            block = view[offset : offset + BLOCK_BYTES]
            self._may_write()
            self._hash.update(block)
            with disk.named(self.path):
                disk.write_all(self._fd, block, self.written)
            self.written += len(block)
            self._advance(len(block))
        if (count := self.written - self._flushed) >= _FLUSH_BYTES:
            disk.start_writing(self._fd, self._flushed, count)
            self._flushed = self.written

    def _take_up(self) -> bool:
        """Hash the prefix on disk; False where it cannot be one."""
        found = self.path.lstat()
        if not disk.is_plain(found) or found.st_size > self.file.size:
            return False
        self._fd = disk.open_old(self.path)
        disk.set_mode(self._fd, 0o644)
        block = memoryview(bytearray(BLOCK_BYTES))
        while count := os.preadv(self._fd, [block], self.written):
            self._hash.update(block[:count])
            self.written += count
            self._advance(count)
        self.resumed = self._flushed = self.written
        return True
