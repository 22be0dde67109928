"""A hub, its CDN and what stands between misbehave; each row of what was seen in the field."""

import collections.abc
import pathlib
import socket
import threading
import time

import pytest

from tests.process.fetcher import localhub, models, rig

pytestmark = pytest.mark.process
SHARD = "model-00001-of-00002.safetensors"
FAST = ("--tries=2", "--idle-timeout-seconds=1")


@pytest.fixture(autouse=True)
def model(hub: localhub.LocalHub) -> localhub.Repo:
    hub.repos["org/m"] = localhub.Repo(files=models.small())
    return hub.repos["org/m"]


class Times:
    """Lets a fault happen the first `count` times that it fits, from any thread."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._lock = threading.Lock()

    def __call__(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0


ALWAYS = 10**9


def on(
    kind: str, answer: collections.abc.Callable[[localhub.Exchange], bool], times: int = ALWAYS
) -> localhub.Fault:
    """A fault for one kind of request and, where files are meant, the first shard."""
    happens = Times(times)

    def fault(exchange: localhub.Exchange) -> bool:
        fits = exchange.kind == kind and exchange.path in ("", SHARD)
        return fits and happens() and answer(exchange)

    return fault


def content_of(exchange: localhub.Exchange) -> bytes:
    assert exchange.content is not None
    return exchange.content


def cut(exchange: localhub.Exchange) -> bool:
    """Send 70 kB of what was promised, then hang up."""
    return exchange.send_content(content_of(exchange), cut_after=70_000)


def cut_at_once(exchange: localhub.Exchange) -> bool:
    return exchange.send_content(content_of(exchange), cut_after=10)


def stall(exchange: localhub.Exchange) -> bool:
    """Send a little, then nothing, and keep the connection."""
    exchange.send_content(content_of(exchange), cut_after=100)
    time.sleep(4)
    return True


def status(code: int, headers: dict[str, str] | None = None) -> collections.abc.Callable[..., bool]:
    return lambda exchange: exchange.send(code, headers=headers)


def web_page(exchange: localhub.Exchange) -> bool:
    page = b"<html>please log in</html>"
    return exchange.send(200, page, {"Content-Type": "text/html; charset=utf-8"})


JSON = {"Content-Type": "application/json"}


def silence(exchange: localhub.Exchange) -> bool:
    time.sleep(3)
    return exchange.send(503)


def no_ranges(exchange: localhub.Exchange) -> bool:
    return exchange.send(200, content_of(exchange))


def flipped(exchange: localhub.Exchange) -> bool:
    content = bytearray(content_of(exchange))
    content[len(content) // 2] ^= 1
    return exchange.send_content(bytes(content))


def drip(exchange: localhub.Exchange) -> bool:
    """A byte every 50 ms: never silent, never done."""
    content = content_of(exchange)
    exchange.send_content(content, cut_after=1)
    for offset in range(exchange.start + 1, exchange.start + 61):
        exchange.handler.wfile.write(content[offset : offset + 1])
        time.sleep(0.05)
    return True


def drip_json(exchange: localhub.Exchange) -> bool:
    """White space is JSON too, and never ends."""
    exchange.send(200, b" ", length=10_000)
    for _ in range(60):
        exchange.handler.wfile.write(b" ")
        time.sleep(0.1)
    return True


def early_end() -> localhub.Fault:
    """After a cut, ranges that end before what was asked for, as a server may choose."""
    cuts = Times(1)

    def fault(exchange: localhub.Exchange) -> bool:
        if exchange.kind != "cdn" or exchange.path != SHARD:
            return False
        if not exchange.start:
            return cuts() and cut(exchange)
        content = content_of(exchange)
        last = min(exchange.start + 9_999, len(content) - 1)
        said = f"bytes {exchange.start}-{last}/{len(content)}"
        return exchange.send(206, content[exchange.start : last + 1], {"Content-Range": said})

    return fault


def without_ranges() -> localhub.Fault:
    """After a cut, the whole file whatever range is asked for."""
    cuts = Times(1)
    return on("cdn", lambda exchange: cut(exchange) if cuts() else no_ranges(exchange))


HEALED = {
    "no ranges after a cut": without_ranges(),
    "fewer bytes than the range": early_end(),
    "cut twice": on("cdn", cut, times=2),
    "stalls once": on("cdn", stall, times=1),
    "drips once": on("cdn", drip, times=1),
    "CDN 503 once": on("cdn", status(503), times=1),
    "CDN 500 once": on("cdn", status(500), times=1),
    "CDN 403 once, as for an expired signature": on("cdn", status(403), times=1),
    "hub 429 once": on("resolve", status(429), times=1),
    "revision 500 once": on("revision", status(500), times=1),
    "revision 429 once, as a date": on(
        "revision", status(429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), times=1
    ),
    "listing 503 once": on("tree", status(503), times=1),
    "listing 408 once": on("tree", status(408), times=1),
    "short chunked body once": on(
        "cdn", lambda e: e.send(200, content_of(e)[:1000], chunked=True), times=1
    ),
    "chunked, no length": on("cdn", lambda e: e.send(200, content_of(e), chunked=True)),
}


@pytest.mark.parametrize("name", HEALED)
def test_what_heals_is_outlived(hub: localhub.LocalHub, cache: pathlib.Path, name: str) -> None:
    hub.fault = HEALED[name]
    run = rig.stage(
        "hf://org/m", cache, "--tries=5", "--idle-timeout-seconds=1", environ=hub.environ()
    )
    assert run.code == 0, run.err
    assert rig.run("verify", str(cache)).code == 0


def test_a_cut_file_goes_on_where_it_stopped(hub: localhub.LocalHub, cache: pathlib.Path) -> None:
    hub.fault = on("cdn", cut, times=1)
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    ranges = [seen.range for seen in hub.asked("cdn") if SHARD in seen.target]
    assert ranges == [None, "bytes=70000-199999"]


def test_retry_after_is_obeyed(hub: localhub.LocalHub, cache: pathlib.Path) -> None:
    hub.fault = on("tree", status(429, {"Retry-After": "3"}), times=1)
    started = time.monotonic()
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    assert time.monotonic() - started > 3


FINAL: dict[str, tuple[localhub.Fault, int, str]] = {
    "cut forever": (on("cdn", cut_at_once), 20, "unavailable: "),
    "CDN 403 forever": (on("cdn", status(403)), 20, "refuses a fresh address"),
    "CDN 503 forever": (on("cdn", status(503)), 20, "answers 503"),
    "revision 503 forever": (on("revision", status(503)), 20, "answers 503"),
    "stalls forever": (on("cdn", stall), 21, "timeout: "),
    "drips forever": (on("cdn", drip), 21, "hardly sends"),
    "revision silent": (on("revision", silence), 21, "timeout: "),
    "listing silent": (on("tree", silence), 21, "timeout: "),
    "listing drips": (on("tree", drip_json), 21, "hardly sends"),
    "portal before the hub": (on("revision", web_page), 16, "login page"),
    "portal before the listing": (on("tree", web_page), 16, "login page"),
    "portal before the CDN": (on("cdn", web_page), 16, "web page"),
    "gzip though identity was asked for": (
        on("cdn", lambda e: e.send(200, content_of(e), {"Content-Encoding": "gzip"})),
        16,
        "a proxy changes the bytes",
    ),
    "another length than listed": (
        on("cdn", lambda e: e.send(200, content_of(e)[:-1])),
        12,
        "do not belong together",
    ),
    "longer than listed, chunked": (
        on("cdn", lambda e: e.send(200, content_of(e) + b"x", chunked=True)),
        12,
        "is longer than",
    ),
    "empty file with status 200": (on("cdn", lambda e: e.send(200, b"")), 12, "has 0 bytes"),
    "one bit flipped in a shard": (on("cdn", flipped), 12, "sha256"),
    "404 for a listed file": (
        on("resolve", status(404, {"X-Error-Code": "EntryNotFound"})),
        11,
        "is listed, but",
    ),
    "a revision without a commit": (
        on("revision", lambda e: e.send(200, b"{}", {"Content-Type": "application/json"})),
        16,
        "names no commit",
    ),
    "redirects without end": (
        on("resolve", lambda e: e.send(302, headers={"Location": e.handler.path})),
        16,
        "redirects without end",
    ),
    "a redirect to nowhere": (on("resolve", status(302)), 16, "redirects to nowhere"),
    "a redirect to an address that cannot be read": (
        on("resolve", status(302, {"Location": "http://[s3cr3t"})),
        16,
        "leads to an address that cannot be read",
    ),
    "a redirect to no host": (
        on("resolve", status(302, {"Location": "http://a..b/\x1b[31m?s3cr3t"})),
        16,
        "http://a..b/%1B[31m is not an address",
    ),
    "JSON without bottom": (
        on("revision", lambda e: e.send(200, b"[" * 200_000, JSON)),
        16,
        "a login page stands in between",
    ),
    "a redirect to a file": (
        on("resolve", status(302, {"Location": "file:///etc/passwd"})),
        16,
        "is not an http or https address",
    ),
}


@pytest.mark.parametrize("name", FINAL)
def test_what_does_not_heal_ends_with_its_own_code_and_shows_nothing(
    hub: localhub.LocalHub, cache: pathlib.Path, name: str
) -> None:
    hub.fault, code, words = FINAL[name]
    run = rig.stage("hf://org/m", cache, *FAST, environ=hub.environ())
    assert (run.code, words in run.reason) == (code, True), run.err
    assert "Traceback" not in run.err
    assert "s3cr3t" not in run.err, "signed queries stay out of the log"
    assert rig.tree(cache) == {}
    assert not (cache / "hub").exists()


def test_a_flipped_bit_in_a_file_outside_lfs_is_found_too(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    def fault(exchange: localhub.Exchange) -> bool:
        return exchange.path == "config.json" and flipped(exchange)

    hub.fault = fault
    run = rig.stage("hf://org/m", cache, *FAST, environ=hub.environ())
    assert (run.code, "git-sha1" in run.reason) == (12, True)


def test_shards_that_are_swapped_are_found(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.files["a.safetensors"], model.files["b.safetensors"] = models.noise(9, seed=3), b"x" * 9

    def fault(exchange: localhub.Exchange) -> bool:
        other = {"a.safetensors": "b.safetensors", "b.safetensors": "a.safetensors"}
        swapped = other.get(exchange.path)
        if exchange.kind != "cdn" or swapped is None:
            return False
        return exchange.send(200, model.files[swapped])

    hub.fault = fault
    assert rig.stage("hf://org/m", cache, *FAST, environ=hub.environ()).code == 12


def test_a_wrong_content_range_is_refused(hub: localhub.LocalHub, cache: pathlib.Path) -> None:
    cuts = Times(1)

    def fault(exchange: localhub.Exchange) -> bool:
        if exchange.kind != "cdn" or exchange.path != SHARD:
            return False
        if cuts():
            return cut(exchange)
        content = content_of(exchange)
        said = {"Content-Range": f"bytes 0-{len(content) - 1}/{len(content)}"}
        return exchange.send(206, content, said)

    hub.fault = fault
    run = rig.stage("hf://org/m", cache, *FAST, environ=hub.environ())
    assert (run.code, "answers range 'bytes 0-199999/200000'" in run.reason) == (16, True)


def test_a_hub_that_is_down_is_an_outage_even_where_another_revision_is_staged(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    before = rig.tree(cache)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        run = rig.stage("hf://org/m@v2", cache, "--tries=2", environ={"HF_ENDPOINT": address})
    assert (run.code, "cannot be reached" in run.reason) == (20, True)
    assert rig.tree(cache) == before


def test_a_mirror_that_redirects_within_itself_and_names_no_commit_is_fine(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    def fault(exchange: localhub.Exchange) -> bool:
        if exchange.kind != "resolve" or exchange.content is None:
            return False
        if "?" not in exchange.handler.path:
            return exchange.send(308, headers={"Location": f"{exchange.handler.path}?moved"})
        return exchange.send_content(exchange.content)

    hub.fault = fault
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    assert rig.run("verify", str(cache)).code == 0


@pytest.mark.parametrize(
    "name",
    [
        "../../evil", "/abs", "..\\evil", "a/../b", "./config.json", "a//b", "a/", "", ".", "a/.",
        ".noctaya", "x/.noctaya-1/y", ".partial-1/x", "new\nline", "nul\0", "tab\t", "\x1b[31mred",
        "x" * 256, "d/" * 600 + "x", "CONFIG.JSON", "config.json/x", "Straße.safetensors",
        "cafe\u0301.txt", "\udcff",
    ],
)  # fmt: skip
def test_a_hostile_name_is_refused_before_any_file_is_asked_for(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo, name: str
) -> None:
    evil = {"type": "file", "path": name, "size": 4, "oid": localhub.git_sha1(b"evil")}
    model.files |= {"STRASSE.safetensors": b"s", "caf\u00e9.txt": b"c"}
    hub.listing = lambda entries: [*entries, evil]
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 13, run.err
    assert run.reason.startswith("refused: ")
    assert run.reason.isprintable()
    assert hub.asked("resolve") == []
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"type": "file", "path": "x", "size": 1}, 16),
        ({"type": "file", "path": "x", "size": -1, "oid": "0" * 40}, 16),
        ({"type": "file", "path": "x", "size": True, "oid": "0" * 40}, 16),
        ({"type": "file", "path": "x", "size": "1", "oid": "0" * 40}, 16),
        ({"type": "file", "path": "x", "size": 1, "oid": "../" * 13 + "x"}, 16),
        ({"type": "file", "path": "x", "size": 1, "oid": "0" * 40, "lfs": {"size": 1}}, 16),
        ({"type": "file", "path": 7, "size": 1, "oid": "0" * 40}, 16),
        ({"type": "link", "path": "x", "size": 1, "oid": "0" * 40}, 16),
        ("x", 16),
        ({"type": "file", "path": "x", "size": 10**15, "oid": "0" * 40}, 14),
    ],
)
def test_a_listing_that_proves_nothing_or_fits_nowhere_is_refused(
    hub: localhub.LocalHub, cache: pathlib.Path, entry: dict[str, object], code: int
) -> None:
    hub.listing = lambda entries: [*entries, entry]
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == code, run.err
    assert hub.asked("resolve") == []
    assert rig.tree(cache) == {}


@pytest.mark.parametrize(
    ("link", "code"),
    [("http://other.invalid/api", 16), ("file:///etc/passwd", 16), ("", 13)],
    ids=["another host", "a file", "itself"],
)
def test_a_listing_that_leads_astray_is_left(
    hub: localhub.LocalHub, cache: pathlib.Path, link: str, code: int
) -> None:
    entry = b'{"type":"file","path":"x","size":1,"oid":"%s"}' % (b"0" * 40)
    page = b"[%s]" % b",".join([entry] * 40_000)
    fields = {"Content-Type": "application/json", "Link": f'<{link}>; rel="next"'}
    hub.fault = lambda e: e.kind == "tree" and e.send(200, page, fields)
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == code


def test_a_listing_of_folders_without_end_is_left(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    page = b'[{"type":"directory","path":"d"}]'
    fields = {**JSON, "Link": '<?again>; rel="next"'}
    hub.fault = lambda e: e.kind == "tree" and e.send(200, page, fields)
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert (run.code, "listed on more than" in run.reason) == (13, True), run.err
    assert len(hub.asked("tree")) < 2000


def test_a_file_named_like_a_clients_bookkeeping_is_staged_as_the_repository_has_it(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.files = {
        ".cache/huggingface/download/config.json.metadata": b"forged",
        "config.json": b"{}",
    }
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    snapshot = cache / f"hub/models--org--m/snapshots/{localhub.COMMIT}"
    assert rig.tree(snapshot) == model.files


def test_composed_and_decomposed_names_are_kept_as_they_are(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.files = {"caf\u00e9.txt": b"1", "the\u0301.txt": b"2", "模型 #1?.safetensors": b"3"}
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 0, run.err
    snapshot = cache / f"hub/models--org--m/snapshots/{localhub.COMMIT}"
    assert rig.tree(snapshot) == model.files


def test_one_large_file_is_fetched_over_several_connections_in_ranges(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.files = {"model.safetensors": models.noise(130 * 1024 * 1024)}
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 0, run.err
    assert rig.run("verify", str(cache)).code == 0
    ranges = [seen.range for seen in hub.asked("cdn")]
    assert {"bytes=0-8388607", "bytes=8388608-16777215", "bytes=16777216-25165823"} <= set(ranges)
    assert len(hub.asked("resolve")) <= 4, "the CDN's address is asked for once, not per range"


def test_a_large_file_of_a_server_without_ranges_is_staged_all_the_same(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.files = {"model.safetensors": models.noise(90 * 1024 * 1024)}
    cuts = Times(1)

    def fault(exchange: localhub.Exchange) -> bool:
        if exchange.kind != "cdn":
            return False
        content = content_of(exchange)
        return exchange.send(200, content, cut_after=10_000_000 if cuts() else None)

    hub.fault = fault
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 0, run.err
    assert rig.run("verify", str(cache)).code == 0


def test_twenty_thousand_small_files_arrive(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.files = {f"part/{n % 100}/{n}.txt": b"%d" % n for n in range(20_000)}
    run = rig.stage("hf://org/m", cache, environ=hub.environ(), timeout=600)
    assert run.code == 0, run.err
    assert run.summary["files"] == 20_000
    assert rig.tree(cache / run.summary["path"]) == model.files
