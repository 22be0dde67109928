"""Staging from a real docker-registry: good artifacts, and hostile ones."""

import base64
import collections.abc
import hashlib
import json
import pathlib
import platform
import resource
import tarfile
import time
import typing

import pytest

from tests.process.fetcher import models, registries, rig, tars

pytestmark = pytest.mark.process
PLAIN = "--plain-http"
REPO = "models/m"
UNPACK = "io.deis.oras.content.unpack"
TGZ = "application/vnd.oci.image.layer.v1.tar+gzip"


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[registries.Registry]:
    with registries.running(tmp_path_factory.mktemp("registry")) as running:
        yield running


def staged(cache: pathlib.Path) -> dict[str, bytes]:
    """The files of the one artifact in a cache."""
    return {name.split("/", 2)[2]: content for name, content in rig.tree(cache).items()}


def packed(content: bytes, title: object = "model", **more: str) -> dict[str, typing.Any]:
    layer = {"mediaType": TGZ, "content": content}
    return registries.titled(layer, title, **{UNPACK: "true", **more})


def push(registry: registries.Registry, *layers: dict[str, typing.Any]) -> str:
    """Push layers whose content stands where the descriptor's digest will."""
    pushed = []
    for layer in layers:
        content = layer.pop("content")
        pushed.append({**registry.push_blob(REPO, content), **layer})
    return registry.push(REPO, pushed)


def test_titled_files_are_staged_under_the_digest(
    registry: registries.Registry, cache: pathlib.Path
) -> None:
    uri = registry.push_files(REPO, models.small())
    run = rig.stage(uri, cache, PLAIN)
    assert run.code == 0, run.err
    digest = uri.partition("@")[2]
    assert run.summary["path"] == str(cache / "oci" / digest.replace(":", "-"))
    assert staged(cache) == models.small()
    assert rig.run("verify", run.summary["path"]).code == 0
    times = {path: path.lstat().st_mtime_ns for path in cache.rglob("*")}
    assert rig.stage(uri, cache).summary["fetched"] == 0, "no request: https would fail here"
    assert {path: path.lstat().st_mtime_ns for path in cache.rglob("*")} == times


@pytest.mark.parametrize("zipped", [True, False], ids=["gzip", "plain"])
def test_a_packed_directory_is_unpacked(
    registry: registries.Registry, cache: pathlib.Path, zipped: bool
) -> None:
    tar = tars.pack(
        tars.entry("model", type=tarfile.DIRTYPE),
        tars.file("model/config.json", b"{}", mode=0o4777, uid=1234),
        tars.file("model/w.safetensors", models.noise(3_000_000)),
        tars.file("model/empty", b""),
        tars.entry("model/sub/", type=tarfile.DIRTYPE),
        tars.file("model/sub/deep/x", b"x"),
    )
    stated = {"io.deis.oras.content.digest": f"sha256:{hashlib.sha256(tar).hexdigest()}"}
    layer = packed(tars.gz(tar) if zipped else tar, **stated)
    layer["mediaType"] = TGZ if zipped else TGZ.removesuffix("+gzip")
    run = rig.stage(push(registry, layer), cache, PLAIN)
    assert run.code == 0, run.err
    assert staged(cache) == {
        "model/config.json": b"{}",
        "model/w.safetensors": models.noise(3_000_000),
        "model/empty": b"",
        "model/sub/deep/x": b"x",
    }
    file = pathlib.Path(run.summary["path"]) / "model/config.json"
    assert (file.stat().st_mode & 0o7777, file.stat().st_uid) == (0o644, 0)
    assert rig.run("verify", str(cache)).code == 0


def test_an_archive_that_is_meant_as_a_file_stays_one(
    registry: registries.Registry, cache: pathlib.Path
) -> None:
    content = tars.gz(tars.pack(tars.file("x", b"x")))
    layer = registries.titled({"mediaType": TGZ, "content": content}, "model.tar.gz")
    uri = push(registry, layer)
    for command in ("plan", "stage"):
        run = rig.run(command, uri, f"--cache={cache}", PLAIN)
        assert run.code == 0, run.err
        (warning,) = [line for line in run.err.splitlines() if line.startswith("warning: ")]
        assert "'model.tar.gz' is a packed directory by its kind" in warning
    assert staged(cache) == {"model.tar.gz": content}


def test_an_index_leads_to_the_manifest_for_this_machine(
    registry: registries.Registry, cache: pathlib.Path
) -> None:
    here = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    manifests = []
    for architecture in (here, "s390x"):
        uri = registry.push_files(REPO, {"arch": architecture.encode()})
        digest = uri.partition("@")[2]
        size = registry.blob_path(digest).stat().st_size
        wanted = {"os": "linux", "architecture": architecture}
        entry = {"mediaType": registries.MANIFEST, "digest": digest, "size": size}
        manifests.append({**entry, "platform": wanted})
    index = {"schemaVersion": 2, "mediaType": registries.INDEX, "manifests": manifests}
    digest = registry.push_manifest(REPO, index, registries.INDEX)
    assert rig.stage(registry.uri(REPO, digest), cache, PLAIN).code == 0
    assert staged(cache) == {"arch": here.encode()}
    index["manifests"] = manifests[1:]
    digest = registry.push_manifest(REPO, index, registries.INDEX)
    run = rig.stage(registry.uri(REPO, digest), cache, PLAIN)
    assert (run.code, "is an index with 0 manifests" in run.reason) == (13, True)


BAD_TITLES = [
    "../../evil", "/abs", "../out-evil/x", "", "new\nline", ".noctaya", "nul\0x", "x" * 300, ".",
    "CONFIG.json", "./config.json", "config.json", "config.json/b",
]  # fmt: skip


@pytest.mark.parametrize("title", BAD_TITLES)
def test_a_hostile_title_is_refused_before_a_blob_is_asked_for(
    registry: registries.Registry, cache: pathlib.Path, title: str
) -> None:
    good = registries.titled({"content": b"{}"}, "config.json")
    run = rig.stage(
        push(registry, good, registries.titled({"content": b"evil"}, title)), cache, PLAIN
    )
    assert run.code == 13, run.err
    assert list(cache.iterdir()) == []
    assert not (cache.parent / "evil").exists()


BAD_TARS: dict[str, bytes] = {
    "link out": tars.pack(tars.entry("model/l", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
    "link, then a file through it": tars.pack(
        tars.entry("model/esc", type=tarfile.SYMTYPE, linkname="/tmp"),
        tars.file("model/esc/owned", b"x"),
    ),
    "honest link inside": tars.pack(
        tars.file("model/a", b"a"), tars.entry("model/b", type=tarfile.SYMTYPE, linkname="a")
    ),
    "hard link out": tars.pack(
        tars.entry("model/h", type=tarfile.LNKTYPE, linkname="/etc/hostname")
    ),
    "hard link inside": tars.pack(
        tars.file("model/a", b"a"), tars.entry("model/b", type=tarfile.LNKTYPE, linkname="model/a")
    ),
    "device": tars.pack(tars.entry("model/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "block device": tars.pack(tars.entry("model/sda", type=tarfile.BLKTYPE, devmajor=8)),
    "fifo": tars.pack(tars.entry("model/fifo", type=tarfile.FIFOTYPE)),
    "climbs": tars.pack(tars.file("../../evil", b"x")),
    "climbs inside": tars.pack(tars.file("model/../../evil", b"x")),
    "absolute": tars.pack(tars.file("/tmp/evil", b"x")),
    "sibling with our name as prefix": tars.pack(tars.file("../model-evil/x", b"x")),
    "reserved": tars.pack(tars.file("model/.noctaya/x", b"x")),
    "twice": tars.pack(tars.file("model/a", b"a"), tars.file("model/a", b"b")),
    "twins": tars.pack(tars.file("model/a", b"a"), tars.file("model/A", b"b")),
    "file, then folder": tars.pack(tars.file("model/a", b"a"), tars.file("model/a/b", b"b")),
    "over another layer": tars.pack(tars.file("config.json", b"evil")),
    "line break": tars.pack(tars.file("model/a\nb", b"a")),
    "nothing": tars.pack(tars.entry("model", type=tarfile.DIRTYPE)),
    "damaged header behind a good file": tars.damaged(
        tars.pack(tars.file("model/a", b"a"), tars.file("model/b", b"b")), 1024
    ),
    "cut header behind a good file": tars.pack(
        tars.file("model/a", b"a"), tars.file("model/b", b"b")
    )[: 1024 + 100],
    "damaged long name": tars.pack(
        tars.file("model/a", b"a"),
        (tars.entry("long", type=tarfile.XHDTYPE, size=9), b"0 path=b\n"),
        tars.file("model/b", b"b"),
    ),
    "no tar": b"this is not a tar at all" * 100,
    "cut tar": tars.pack(tars.file("model/a", models.noise(100_000)))[:60_000],
}


@pytest.mark.parametrize("name", BAD_TARS)
def test_a_hostile_tar_leaves_nothing(
    registry: registries.Registry, cache: pathlib.Path, name: str
) -> None:
    good = registries.titled({"content": b"{}"}, "config.json")
    run = rig.stage(push(registry, good, packed(tars.gz(BAD_TARS[name]))), cache, PLAIN)
    assert run.code in (13, 15), run.err
    assert "Traceback" not in run.err
    assert rig.tree(cache) == {}
    assert not (cache / "oci").exists()
    for outside in (cache.parent / "evil", cache / "model-evil", pathlib.Path("/tmp/evil")):
        assert not outside.exists()


def test_a_header_of_a_tar_is_not_taken_into_memory_however_long_it_is(
    registry: registries.Registry, cache: pathlib.Path
) -> None:
    # Noise, so that it is no bomb by its ratio.
    long = models.noise(200_000_000)
    header = tars.entry("model/long", type=tarfile.XHDTYPE, size=len(long))
    layer = {**packed(tars.pack((header, long))), "mediaType": TGZ.removesuffix("+gzip")}
    run = rig.stage(push(registry, layer), cache, PLAIN, preexec_fn=little_memory)
    assert (run.code, "a header of 200000000 bytes" in run.reason) == (13, True), run.err


def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (180_000_000, 180_000_000))


def test_folders_without_end_are_refused(
    registry: registries.Registry, cache: pathlib.Path
) -> None:
    folders = tars.entry("model/folder", type=tarfile.DIRTYPE).tobuf() * 100_001
    layer = {**packed(folders), "mediaType": TGZ.removesuffix("+gzip")}
    run = rig.stage(push(registry, layer), cache, PLAIN)
    assert (run.code, "more than 100000 files and folders" in run.reason) == (13, True), run.err


def test_a_bomb_is_refused(registry: registries.Registry, cache: pathlib.Path) -> None:
    bomb = tars.gz(tars.pack(tars.file("model/zeros", bytes(50_000_000))))
    assert len(bomb) < 60_000
    run = rig.stage(push(registry, packed(bomb)), cache, PLAIN)
    assert (run.code, "a bomb" in run.reason) == (13, True)
    assert rig.tree(cache) == {}


@pytest.mark.parametrize("content", [b"not gzip", tars.gz(bytes(10_000))[:-9]], ids=["no", "cut"])
def test_a_broken_gzip_is_refused(
    registry: registries.Registry, cache: pathlib.Path, content: bytes
) -> None:
    run = rig.stage(push(registry, packed(content)), cache, PLAIN)
    assert (run.code, "not a well-formed tar" in run.reason) == (13, True)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({}, "without a title"),
        ({"annotations": {"org.cncf.model.filepath": "w.bin"}}, "without a title"),
        (packed(b"x", "m") | {"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd"}, "zstd"),
        (packed(b"x", "m", **{"io.deis.oras.content.digest": "md5:1"}), "not sha256"),
    ],
    ids=["an image", "another package", "zstd", "md5"],
)
def test_other_kinds_are_refused_in_words(
    registry: registries.Registry, cache: pathlib.Path, layer: dict[str, typing.Any], words: str
) -> None:
    run = rig.stage(push(registry, {"content": b"x", **layer}), cache, PLAIN)
    assert (run.code, words in run.reason) == (13, True), run.err


def test_an_artifact_without_layers_is_refused(
    registry: registries.Registry, cache: pathlib.Path
) -> None:
    assert rig.stage(registry.push(REPO, []), cache, PLAIN).code == 13


@pytest.mark.parametrize(("size", "code"), [(5, 12), (15, 12), (-1, 13)])
def test_a_layer_of_another_size_than_stated_is_refused(
    registry: registries.Registry, cache: pathlib.Path, size: int, code: int
) -> None:
    layer = registries.titled({"content": b"ten bytes!", "size": size}, "f")
    assert rig.stage(push(registry, layer), cache, PLAIN).code == code
    assert rig.tree(cache) == {}


@pytest.mark.parametrize("which", ["blob", "manifest", "packed"])
def test_what_changed_on_the_registrys_disk_is_found(
    registry: registries.Registry, cache: pathlib.Path, which: str
) -> None:
    content = tars.gz(tars.pack(tars.file("model/a", models.noise(5000, seed=9))))
    if which == "packed":
        uri = push(registry, packed(content))
    else:
        uri = registry.push_files("models/changed", {"a": models.noise(5000, seed=10)})
    digests = {
        "manifest": uri.partition("@")[2],
        "blob": f"sha256:{hashlib.sha256(models.noise(5000, seed=10)).hexdigest()}",
        "packed": f"sha256:{hashlib.sha256(content).hexdigest()}",
    }
    path = registry.blob_path(digests[which])
    changed = bytearray(path.read_bytes())
    changed[len(changed) // 2] ^= 1
    path.write_bytes(changed)
    run = rig.stage(uri, cache, PLAIN)
    # The registry itself no longer finds a manifest whose bytes do not parse.
    assert run.code == 12 or (which == "manifest" and run.code in (16, 20)), run.err
    assert rig.tree(cache) == {}


@pytest.mark.parametrize(
    ("tail", "code"),
    [
        (":latest", 2),
        ("", 2),
        ("@sha256:abc", 2),
        ("@md5:" + "0" * 32, 2),
        ("@sha256:" + "../" * 21 + "x", 2),
        ("@sha256:" + "0" * 64, 11),
    ],
)
def test_what_is_not_pinned_or_not_there_fails_at_once(
    registry: registries.Registry, cache: pathlib.Path, tail: str, code: int
) -> None:
    run = rig.stage(f"oci://{registry.host}/{REPO}{tail}", cache, PLAIN)
    assert run.code == code, run.err


def test_a_registry_that_speaks_no_tls_is_an_error_that_is_not_credentials(
    registry: registries.Registry, cache: pathlib.Path
) -> None:
    run = rig.stage(registry.push_files(REPO, {"a": b"a"}), cache)
    assert run.code == 16
    assert "TLS" in run.reason
    assert "give --plain-http" in run.reason


def auth_file(path: pathlib.Path, **auths: dict[str, str]) -> str:
    path.write_text(json.dumps({"auths": auths}))
    return f"--registry-auth={path}"


def basic(user: str = registries.USER, password: str = registries.PASSWORD) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture(scope="module")
def with_basic(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[registries.Registry]:
    with registries.with_basic(tmp_path_factory.mktemp("basic")) as running:
        yield running


@pytest.mark.parametrize("key", ["{host}", "https://{host}/v1/", "http://{host}", "{host}/models"])
@pytest.mark.parametrize("entry", ["auth", "username"])
def test_basic_credentials_open_a_registry(
    with_basic: registries.Registry,
    cache: pathlib.Path,
    tmp_path: pathlib.Path,
    key: str,
    entry: str,
) -> None:
    uri = with_basic.push_files(REPO, models.small())
    named = {"username": registries.USER, "password": registries.PASSWORD}
    shown = basic() if entry == "auth" else named
    other = {"other.example": basic("other", "wrong")}
    option = auth_file(tmp_path / "auth", **other, **{key.format(host=with_basic.host): shown})
    run = rig.stage(uri, cache, PLAIN, option)
    assert run.code == 0, run.err
    assert staged(cache) == models.small()


def test_missing_and_wrong_credentials_fail_at_once_and_are_not_shown(
    with_basic: registries.Registry, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    uri = with_basic.push_files(REPO, models.small())
    run = rig.stage(uri, cache, PLAIN)
    assert (run.code, "no credentials were given" in run.reason) == (10, True)
    option = auth_file(tmp_path / "auth", **{with_basic.host: basic(password="wr0ng")})
    run = rig.stage(uri, cache, PLAIN, option)
    assert (run.code, "were not enough" in run.reason) == (10, True)
    assert "wr0ng" not in run.err + run.out


def test_a_credential_helper_is_refused_in_words(
    with_basic: registries.Registry, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    uri = with_basic.push_files(REPO, models.small())
    for config in (
        {"credsStore": "desktop"},
        {"credHelpers": {with_basic.host: "ecr-login"}},
        {"auths": {with_basic.host: {}}, "credsStore": "desktop"},
    ):
        (tmp_path / "auth").write_text(json.dumps(config))
        run = rig.stage(uri, cache, PLAIN, f"--registry-auth={tmp_path / 'auth'}")
        assert (run.code, "kubectl create secret docker-registry" in run.reason) == (2, True)


@pytest.mark.parametrize("content", ["", "[]", '{"auths": 1}', None])
def test_an_unreadable_auth_file_is_a_mistake_in_words(
    registry: registries.Registry, cache: pathlib.Path, tmp_path: pathlib.Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "auth").write_text(content)
    uri = registry.push_files(REPO, {"a": b"a"})
    assert rig.stage(uri, cache, PLAIN, f"--registry-auth={tmp_path / 'auth'}").code == 2


@pytest.fixture(scope="module")
def with_tokens(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[tuple[registries.Registry, registries.TokenService]]:
    with registries.with_tokens(tmp_path_factory.mktemp("tokens")) as running:
        yield running


@pytest.mark.parametrize("kind", ["auth", "identitytoken", "registrytoken"])
def test_a_token_service_is_answered(
    with_tokens: tuple[registries.Registry, registries.TokenService],
    cache: pathlib.Path,
    tmp_path: pathlib.Path,
    kind: str,
) -> None:
    registry, service = with_tokens
    uri = registry.push_files(REPO, models.small())
    entry = {
        "auth": basic(),
        "identitytoken": {"identitytoken": service.identity_token},
        "registrytoken": {"registrytoken": service.token(f"repository:{REPO}:pull", 300)},
    }[kind]
    service.asked.clear()
    run = rig.stage(uri, cache, PLAIN, auth_file(tmp_path / "auth", **{registry.host: entry}))
    assert run.code == 0, run.err
    assert staged(cache) == models.small()
    asked = [(method, said["scope"]) for method, said, _ in service.asked]
    wanted = {"auth": "GET", "identitytoken": "POST"}
    assert asked == ([(wanted[kind], f"repository:{REPO}:pull")] if kind in wanted else [])
    assert service.identity_token not in run.err + run.out


def slowly(_: object) -> bool:
    time.sleep(1.0)
    return False


def test_a_token_that_grows_old_between_layers_is_renewed(
    with_tokens: tuple[registries.Registry, registries.TokenService],
    cache: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    registry, service = with_tokens
    uri = registry.push_files(REPO, {f"{n}.bin": models.noise(1000, seed=n) for n in range(5)})
    service.asked.clear()
    # docker-registry allows a minute of leeway for clocks, so a token is born that old.
    service.seconds = -57.0
    with registries.in_front(registry, slowly) as host:
        slow = uri.replace(registry.host, host)
        option = auth_file(tmp_path / "auth", **{host: basic()})
        run = rig.stage(slow, cache, PLAIN, option, "--connections=1")
    service.seconds = 300.0
    assert run.code == 0, run.err
    assert len(service.asked) >= 2


def test_missing_and_wrong_credentials_for_a_token_fail_at_once(
    with_tokens: tuple[registries.Registry, registries.TokenService],
    cache: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    registry, _ = with_tokens
    uri = registry.push_files(REPO, models.small())
    assert rig.stage(uri, cache, PLAIN).code == 10
    for wrong in (basic(password="wr0ng"), {"identitytoken": "wr0ng"}, {"registrytoken": "wr0ng"}):
        option = auth_file(tmp_path / "auth", **{registry.host: wrong})
        run = rig.stage(uri, cache, PLAIN, option)
        assert (run.code, "wr0ng" in run.err) == (10, False), run.err
