"""Decides which names may become files. Pure; everything here is checked before a byte is written.

A listing is the word of a stranger. It may climb out of the folder, overwrite our own marker, or
hold two names that one of the reader's filesystems takes for the same.
"""

import collections.abc
import unicodedata

from fetcher import errors

# Folders and files of ours: markers and partial folders live at the cache's root, and a model
# that carries such a name has no honest reason to.
RESERVED_PREFIXES = (".noctaya", ".partial-")
# ext4, XFS and NFS all end at 255 bytes; PATH_MAX is 4096, of which the cache's root needs some.
_COMPONENT_BYTES = 255
_PATH_BYTES = 1024
# Ten times the largest repository known to us, and small enough to list in memory.
MAX_FILES = 100_000


def check_all(paths: collections.abc.Iterable[str]) -> None:
    """Refuse bad names, twins, and a file where another name needs a folder."""
    taken: dict[str, str] = {}
    for count, path in enumerate(paths, start=1):
        if count > MAX_FILES:
            raise errors.Refused(f"more than {MAX_FILES} files: narrow it down with --include")
        check(path)
        twin = taken.setdefault(fold(path), path)
        if count != len(taken):
            raise errors.Refused(
                f"{_shown(path)} and {_shown(twin)} are the same name on some filesystems"
            )
    for path in taken.values():
        _check_parents(path, taken)


def check(path: str) -> None:
    """Refuse a name that is not a plain relative path of ordinary characters."""
    parts = path.split("/")
    if path.startswith("/"):
        raise errors.Refused(f"{_shown(path)} is an absolute name")
    if any(part in ("", ".", "..") for part in parts):
        raise errors.Refused(f"{_shown(path)} is empty or has an empty, '.' or '..' part")
    if "\\" in path or any(unicodedata.category(char) in ("Cc", "Cs") for char in path):
        raise errors.Refused(f"{_shown(path)} has a backslash, a control character or broken text")
    if any(part.startswith(RESERVED_PREFIXES) for part in parts):
        raise errors.Refused(
            f"{_shown(path)} uses a reserved name ({', '.join(RESERVED_PREFIXES)})"
        )
    if len(path.encode()) > _PATH_BYTES or any(len(p.encode()) > _COMPONENT_BYTES for p in parts):
        raise errors.Refused(
            f"{_shown(path)} is too long: a part has at most {_COMPONENT_BYTES} bytes, "
            f"the whole {_PATH_BYTES}"
        )


def fold(path: str) -> str:
    """What a filesystem that ignores case and composes accents makes of a name."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _check_parents(path: str, taken: dict[str, str]) -> None:
    folder = path
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        if (twin := taken.get(fold(folder))) is not None:
            raise errors.Refused(
                f"{_shown(twin)} is a file and {_shown(path)} needs a folder there"
            )


def _shown(path: str) -> str:
    text = ascii(path)
    return text if len(text) <= 120 else f"{text[:100]}...' ({len(path)} characters)"
