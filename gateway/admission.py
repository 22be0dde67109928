"""How much one gateway takes on: requests, and bytes of bodies that it keeps in memory."""

import contextlib
from collections.abc import Iterator


class Full(Exception):
    """No room. ``what`` is ``requests`` or ``bytes``."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Admission:
    def __init__(self, *, slots: int, held_bytes: int) -> None:
        self.slots = slots
        self.held_limit = held_bytes
        self.taken = 0
        self.held_bytes = 0

    @contextlib.contextmanager
    def slot(self) -> Iterator["Slot"]:
        """Take a slot for the block; it and the bytes held in it are given back on every way out.

        Raises Full at once: nobody waits for a slot.
        """
        if self.taken >= self.slots:
            raise Full("requests")
        self.taken += 1
        slot = Slot(self)
        try:
            yield slot
        finally:
            slot.drop_bytes()
            self.taken -= 1


class Slot:
    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._bytes = 0

    def hold_bytes(self, count: int) -> None:
        """Account for ``count`` more bytes in memory; raises Full where they do not fit."""
        if self._admission.held_bytes + count > self._admission.held_limit:
            raise Full("bytes")
        self._admission.held_bytes += count
        self._bytes += count

    def drop_bytes(self) -> None:
        self._admission.held_bytes -= self._bytes
        self._bytes = 0
