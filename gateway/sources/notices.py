"""Changes in a folder, told by the kernel: then nobody has to wake up to look for them."""

import ctypes
import os
from pathlib import Path

# From inotify(7): a file was closed after it had been written, or moved into the folder.
_WRITTEN, _MOVED_IN = 0x08, 0x80


def of(folder: Path) -> int | None:
    """A descriptor that can be read, without blocking, from the next change on; the caller closes
    it. None where the system tells of no changes, or has no descriptor left for it."""
    try:
        libc = ctypes.CDLL(None)
        number: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if number < 0:
            return None
        if libc.inotify_add_watch(number, os.fsencode(folder), _WRITTEN | _MOVED_IN) < 0:
            os.close(number)
            return None
    except (AttributeError, OSError):
        # Not Linux.
        return None
    return number
