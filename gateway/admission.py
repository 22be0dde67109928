"""How much one gateway takes on: requests, and bytes of bodies that it keeps in memory."""

from typing import Self


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

    def slot(self) -> "Slot":
        """``with admission.slot() as slot``: one request's place. Entering raises Full at once
        where there is none: nobody waits for a slot."""
        return Slot(self)


class Slot:
    """A slot and the bytes held in it; both are given back on every way out of the block."""

    __slots__ = ("_admission", "_bytes")

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._bytes = 0

    def __enter__(self) -> Self:
        if self._admission.taken >= self._admission.slots:
            raise Full("requests")
        self._admission.taken += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._admission.held_bytes -= self._bytes
        self._admission.taken -= 1

    def hold_bytes(self, count: int) -> None:
        """Account for ``count`` more bytes in memory; raises Full where they do not fit."""
        if self._admission.held_bytes + count > self._admission.held_limit:
            raise Full("bytes")
        self._admission.held_bytes += count
        self._bytes += count
