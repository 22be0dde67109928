"""Reads staged files again to see whether they still are what they were."""

import os
import pathlib

from fetcher import assembly, disk, hashing, markers, plans


def prove_plan(folder: pathlib.Path, plan: plans.Plan) -> list[markers.StagedFile] | None:
    """The plan's files, if the folder holds exactly these bytes under exactly these names.

    The plan may hold no packed directories, of whose files it knows nothing.
    """
    if folder.is_symlink():
        return None
    files = [markers.StagedFile(path=f.path, size=f.size, proof=f.proof) for f in plan.files]
    if set(disk.files_below(folder)) != {file.path for file in files}:
        return None
    return None if any(prove(folder, file) for file in files) else files


def prove(folder: pathlib.Path, file: markers.StagedFile) -> str | None:
    """What is wrong with a file, or None."""
    path = folder / file.path
    try:
        found = path.lstat()
    except OSError as e:
        return f"{file.path!a} is missing ({e.strerror})"
    if not disk.is_plain(found):
        return f"{file.path!a} is not a plain file"
    if found.st_size != file.size:
        return f"{file.path!a} has {found.st_size} bytes, not {file.size}"
    digest = hash_of(path, file.proof, file.size)
    if digest != file.proof.hex:
        return f"{file.path!a} has {file.proof.algorithm} {digest}, not {file.proof.hex}"
    return None


def hash_of(path: pathlib.Path, proof: plans.Proof, size: int) -> str:
    """A file's hash of the kind that `proof` is."""
    digest = hashing.start(proof, size)
    block = memoryview(bytearray(assembly.BLOCK_BYTES))
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        while count := os.readv(fd, [block]):
            digest.update(block[:count])
    finally:
        os.close(fd)
    return digest.hexdigest()


def prove_marker(root: pathlib.Path, marker: markers.Marker) -> list[str]:
    """Everything that differs from what a marker says, after reading every byte."""
    folder = root / marker.folder
    if folder.is_symlink() or not folder.is_dir():
        return [f"{folder} is not there"]
    wrong = [said for file in marker.files if (said := prove(folder, file)) is not None]
    known = {file.path for file in marker.files}
    wrong += [f"{name!a} was not staged" for name in disk.files_below(folder) if name not in known]
    return wrong
