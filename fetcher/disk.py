"""The cache volume: folders that are ours, durable writes, space, and what its errors mean.

Nothing here follows a link below the cache's root: the volume may be shared, and a link that
somebody else planted would move our files elsewhere.
"""

import collections.abc
import contextlib
import errno
import os
import pathlib
import stat

from fetcher import errors

_FILE_MODE = 0o644
_FOLDER_MODE = 0o755
# How much one write call takes. ext4 makes page cache in pieces as large as the write, and on a
# virtual machine large pieces tend to be memory that the host took back and must find again:
# 2 GiB took 4.3 s of system time in writes of 1 MiB, 2.3 s in 256 KiB, 1.7 s in 64 or 128 KiB.
_WRITE_BYTES = 128 * 1024


def root_of(cache: str) -> pathlib.Path:
    """The real path of the cache, which may itself be reached through a link."""
    path = pathlib.Path(os.path.realpath(cache))
    if not path.is_dir():
        raise errors.Usage(f"--cache {cache}: there is no such folder: mount a volume there")
    return path


@contextlib.contextmanager
def named(path: pathlib.Path) -> collections.abc.Iterator[None]:
    """Turn the volume's errors into ours. Only calls on the volume go inside."""
    try:
        yield
    except OSError as e:
        where = pathlib.Path(os.fsdecode(e.filename)) if e.filename else path
        match e.errno:
            case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
                raise errors.NoSpace(
                    f"the volume of {path} is full ({e.strerror}), has {free_bytes(path)} bytes "
                    "free: make room or ask for a larger volume"
                ) from e
            case errno.EACCES | errno.EPERM:
                raise errors.NoPermission(_owner_line(where)) from e
            case errno.EROFS:
                raise errors.NoPermission(
                    f"{where} is on a read-only volume: mount it read-write for this Job"
                ) from e
            case errno.ELOOP | errno.ENOTDIR:
                raise errors.NoPermission(
                    f"{where} is a link or a file where a folder was expected: remove it"
                ) from e
            case _:
                # EIO, ESTALE, a folder that another run took over: another try may see better.
                raise errors.Unavailable(
                    f"the volume of {path} fails: {e.strerror} ({where}); if it stays so, look at "
                    "the node's log and the storage"
                ) from e


def _owner_line(where: pathlib.Path) -> str:
    shown = where
    for shown in (where, *where.parents):
        with contextlib.suppress(OSError):
            found = shown.lstat()
            return (
                f"{shown} belongs to {found.st_uid}:{found.st_gid} with mode "
                f"{stat.S_IMODE(found.st_mode):04o} and cannot be written as "
                f"{os.geteuid()}:{os.getegid()}: set fsGroup, or chown the volume"
            )
    return f"{shown} cannot be written as {os.geteuid()}:{os.getegid()}"


def free_bytes(path: pathlib.Path) -> int:
    """Bytes that this user may still write at a path, which need not exist yet."""
    for place in (path, *path.parents):
        with contextlib.suppress(FileNotFoundError):
            found = os.statvfs(place)
            return found.f_bavail * found.f_frsize
    raise AssertionError("the root folder exists")


def make_folders(root: pathlib.Path, relative: pathlib.PurePosixPath) -> pathlib.Path:
    """Make each folder of a relative path below `root`, any uid may read it; links are refused."""
    folder = root
    for part in relative.parts:
        parent, folder = folder, folder / part
        try:
            folder.mkdir(_FOLDER_MODE)
        except FileExistsError:
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(folder)) from None
        else:
            # mkdir obeys the umask; readers of other uids need the bits all the same.
            set_mode(folder, _FOLDER_MODE | (folder.stat().st_mode & stat.S_ISGID))
            sync_folder(parent)
    return folder


def set_mode(target: int | pathlib.Path, mode: int) -> None:
    """Give a file or folder of ours its mode, or find that everybody may do as much already.

    A mounted SMB share shows every file as another user's, with the mount's own mode, and lets
    nobody change it.
    """
    try:
        os.chmod(target, mode)
    except PermissionError:
        wanted = mode & 0o777
        if os.stat(target).st_mode & wanted != wanted:
            raise


def open_folder(root: pathlib.Path, name: str) -> None:
    """Make a folder at the cache's root that any uid may write to; links are refused.

    For what an engine of another user keeps beside its weights.
    """
    with named(root):
        folder = make_folders(root, pathlib.PurePosixPath(name))
        if stat.S_IMODE(folder.lstat().st_mode) & 0o777 != 0o777:
            set_mode(folder, 0o777)


def open_new(path: pathlib.Path) -> int:
    """Create a file that must not exist, and return its descriptor."""
    fd = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE
    )
    set_mode(fd, _FILE_MODE)
    return fd


def open_old(path: pathlib.Path) -> int:
    """Open a regular file of ours for reading and writing."""
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def write_all(fd: int, data: memoryview, offset: int) -> None:
    """Write every byte; a short write is not an end."""
    while data:
        done = os.pwrite(fd, data[:_WRITE_BYTES], offset)
        data = data[done:]
        offset += done


def start_writing(fd: int, offset: int, count: int) -> None:
    """Have written bytes sent to the disk, and wait for nothing; an error is told by fsync.

    Said to be about the page cache, and known for this: Linux begins to write what is dirty in
    the stretch, keeps it cached, and holds the caller back only where the disk's queue is full.
    """
    # A filesystem that does not know of it loses some speed and nothing else.
    with contextlib.suppress(OSError):
        os.posix_fadvise(fd, offset, count, os.POSIX_FADV_DONTNEED)


def write_durably(path: pathlib.Path, content: bytes) -> None:
    """Replace a small file so that a crash leaves the old one or the new one, whole."""
    scratch = path.with_name(f".noctaya-{path.name}-{os.urandom(6).hex()}")
    fd = open_new(scratch)
    try:
        write_all(fd, memoryview(content), 0)
        os.fsync(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise
    finally:
        os.close(fd)
    scratch.replace(path)
    sync_folder(path.parent)


def sync_folder(path: pathlib.Path) -> None:
    """Make the names in a folder durable, where its filesystem has a way to."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as e:
        # What filesystems answer that know fsync for files only, as some over a network.
        if e.errno != errno.EINVAL:
            raise
    finally:
        os.close(fd)


def sync_tree(path: pathlib.Path) -> None:
    """Make the names in a folder and all below it durable, the deepest first."""
    for folder, _, _ in os.walk(path, topdown=False):
        sync_folder(pathlib.Path(folder))


def files_below(path: pathlib.Path) -> dict[str, os.stat_result]:
    """Every entry below a folder but the folders, by relative name; links are not followed."""
    found: dict[str, os.stat_result] = {}
    for folder, folders, files in os.walk(path):
        here = pathlib.Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        for name in (*files, *links):
            found[(here / name).relative_to(path).as_posix()] = (here / name).lstat()
    return found


def is_plain(found: os.stat_result) -> bool:
    """Whether an entry is a regular file that no other name shares."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
