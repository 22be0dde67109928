"""Container images without a registry: made here, cached by what goes in, imported.

The project's own images are built from the Dockerfiles that ship, on a base made by debootstrap:
the distribution and Python minor are those of ``python:3.13-slim``, which no registry here
serves. Test images are one static busybox under its many names.
"""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator

from tests.cluster import build, errors, layout, machine, oci

_SUITE = "trixie"
_PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
# Counted up when the recipe below changes in a way that its words do not show.
_RECIPE = "1"

_KEPT_SECONDS = 24 * 3600

# What a build needs to know of this machine to reach its package index. Names only: the values
# are the machine's and are never written down.
_PASSED_ON = (
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "PIP_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Own:
    """An image of the project: the folder of its Dockerfile, and its name."""

    folder: str
    name: str

    @property
    def reference(self) -> str:
        return f"docker.io/noctaya/{self.name}:{layout.VERSION}"

    @property
    def dockerfile(self) -> pathlib.Path:
        return layout.REPOSITORY / self.folder / "Dockerfile"


OWN = (
    Own("hooks", "hooks"),
    Own("gateway", "gateway"),
    Own("engine", "echo"),
    Own("fetcher", "fetcher"),
)


def tests_own() -> dict[str, pathlib.Path]:
    """The archives that every rig needs, by reference: a sandbox that waits, and a toolbox."""
    busybox = pathlib.Path(machine.find("busybox") or "busybox")
    applets = machine.call(busybox, "--list").split()
    key = hashlib.sha256(busybox.read_bytes() + _RECIPE.encode()).hexdigest()[:12]
    pause, toolbox = _archive(f"pause-{key}"), _archive(f"busybox-{key}")
    if not pause.exists():
        with _finished(pause) as partial:
            oci.write(
                partial,
                files={"bin/busybox": busybox},
                links={},
                folders=["bin"],
                # containerd ends a sandbox with SIGKILL, so it need not listen to signals.
                entrypoint=["/bin/busybox", "sleep", "2147483647"],
            )
    if not toolbox.exists():
        with _finished(toolbox) as partial:
            oci.write(
                partial,
                files={"bin/busybox": busybox},
                links={f"bin/{name}": "busybox" for name in applets if name != "busybox"},
                folders=["bin", "etc", "tmp"],
                entrypoint=["/bin/sh"],
            )
    return {layout.PAUSE_IMAGE: pause, layout.BUSYBOX_IMAGE: toolbox}


def own(say: Callable[[str], None]) -> dict[str, pathlib.Path]:
    """The archives of the project's images by reference, built where something changed."""
    with build.alone():
        return {image.reference: _build(image, say) for image in OWN if image.dockerfile.exists()}


def _build(image: Own, say: Callable[[str], None]) -> pathlib.Path:
    """Build one image from its Dockerfile, with the repository as context."""
    base = _base(say)
    inputs = hashlib.sha256(base.encode())
    for file in _inputs(image):
        inputs.update(f"{file.relative_to(layout.REPOSITORY)} {file.stat().st_mode:o}\0".encode())
        inputs.update(file.read_bytes())
    archive = _archive(f"{image.folder}-{inputs.hexdigest()[:12]}")
    if archive.exists():
        return archive
    begin = time.monotonic()
    certificates = "/etc/ssl/certs"
    _buildah(
        "build",
        "--isolation=chroot",
        "--network=host",
        "--pull-never",
        "--layers",
        # A machine whose registries sit behind a proxy has that proxy's certificate here.
        f"--volume={certificates}:{certificates}:ro",
        *(f"--env={name}" for name in _PASSED_ON if name in os.environ),
        f"--build-arg=BASE={base}",
        f"--file={image.dockerfile}",
        f"--tag={image.reference}",
        str(layout.REPOSITORY),
    )
    with _finished(archive) as partial:
        _buildah("push", image.reference, f"oci-archive:{partial}")
    for older in archive.parent.glob(f"{image.folder}-*.tar"):
        # Not at once: another checkout may be about to load its own.
        if time.time() - older.stat().st_mtime > _KEPT_SECONDS:
            older.unlink()
    say(f"built the image {image.reference} in {time.monotonic() - begin:.0f} s")
    return archive


def _base(say: Callable[[str], None]) -> str:
    """The reference, in the rig's own image store, of the base that Dockerfiles start from."""
    key = hashlib.sha256(f"{_SUITE} {_PACKAGES} {_RECIPE}".encode()).hexdigest()[:12]
    reference = f"localhost/noctaya-rig-base:{key}"
    if reference.removeprefix("localhost/") in _buildah("images", "--format={{.Name}}:{{.Tag}}"):
        return reference
    begin = time.monotonic()
    tree = layout.cache() / "trees" / f".base-{key}"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    options = ["--variant=minbase", f"--include={_PACKAGES}"]
    _apart("debootstrap", *options, _SUITE, str(tree), _mirror())
    for waste in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(tree / waste, ignore_errors=True)
    # Where the official image has them.
    for link, target in (("python", "python3"), ("python3", "python3"), ("pip", "pip3")):
        (tree / "usr/local/bin" / link).symlink_to(f"/usr/bin/{target}")
    recipe = tree.with_suffix(".Dockerfile")
    recipe.write_text('FROM scratch\nCOPY . /\nCMD ["python3"]\n')
    _buildah("build", "--isolation=chroot", f"--file={recipe}", f"--tag={reference}", str(tree))
    shutil.rmtree(tree.parent)
    say(f"built the base image ({_SUITE}) in {time.monotonic() - begin:.0f} s")
    return reference


def _mirror() -> str:
    """The first Debian mirror among this machine's package sources."""
    etc = pathlib.Path("/etc/apt")
    files = [*sorted((etc / "sources.list.d").glob("*")), etc / "sources.list"]
    for file in files:
        if not file.is_file():
            continue
        for line in file.read_text(errors="replace").splitlines():
            words = line.split("#")[0].split()
            for word in words[1:]:
                # Security and third-party archives have no base system.
                if "://" in word and word.rstrip("/").endswith("/debian"):
                    return word
    raise errors.RigError(
        "no Debian mirror in /etc/apt: the base image is made from one; name it in a "
        "sources.list.d file"
    )


def _inputs(image: Own) -> Iterator[pathlib.Path]:
    """The Dockerfile and every file that it copies from the repository."""
    yield image.dockerfile
    lines = image.dockerfile.read_text().replace("\\\n", " ").splitlines()
    for line in lines:
        instruction, *words = line.split() or [""]
        if instruction.upper() not in ("COPY", "ADD") or any("--from=" in w for w in words):
            continue
        for source in [word for word in words if not word.startswith("--")][:-1]:
            for match in sorted(layout.REPOSITORY.glob(source.rstrip("/"))):
                yield from _files(match)


def _files(path: pathlib.Path) -> Iterator[pathlib.Path]:
    if path.is_file():
        yield path
    elif path.is_dir() and path.name not in ("__pycache__", ".git", ".venv"):
        for entry in sorted(path.iterdir()):
            yield from _files(entry)


def _buildah(*arguments: str) -> str:
    """buildah with a store of the rig's own; the machine's containers are not touched."""
    store = layout.cache() / "buildah"
    store.mkdir(parents=True, exist_ok=True)
    policy = store / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    command, *rest = arguments
    takes_policy = [f"--signature-policy={policy}"] if command in ("build", "push") else []
    return _apart(
        "buildah",
        f"--root={store / 'root'}",
        f"--runroot={store / 'run'}",
        command,
        *takes_policy,
        *rest,
    )


def _apart(*argv: str) -> str:
    """Run in a mount namespace that ends with the command: both tools leave mounts behind."""
    return machine.call("unshare", "--mount", *argv)


def _archive(name: str) -> pathlib.Path:
    folder = layout.cache() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.tar"


@contextlib.contextmanager
def _finished(final: pathlib.Path) -> Iterator[pathlib.Path]:
    """A partial file that gets its final name when the block ends well."""
    partial = final.with_name(f".{final.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.rename(final)
    finally:
        partial.unlink(missing_ok=True)
