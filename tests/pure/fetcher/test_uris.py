import pytest

from fetcher import errors, layout, uris

HEX = "ab" * 32


@pytest.mark.parametrize(
    ("uri", "revision", "wanted"),
    [
        ("hf://org/name", None, "hf://org/name@main"),
        ("hf://org/name", "v1", "hf://org/name@v1"),
        ("hf://org/name@v1", "v1", "hf://org/name@v1"),
        ("HF://org/name", None, "hf://org/name@main"),
        ("huggingface://Qwen/Qwen3-0.6B@refs/pr/1", None, "hf://Qwen/Qwen3-0.6B@refs/pr/1"),
        ("modelscope://Qwen/Qwen3.5", None, "modelscope://Qwen/Qwen3.5@master"),
        (f"oci://r.example:5000/a/b@sha256:{HEX}", None, f"oci://r.example:5000/a/b@sha256:{HEX}"),
        (f"oci://[::1]:5000/a@sha256:{HEX}", None, f"oci://[::1]:5000/a@sha256:{HEX}"),
    ],
)
def test_a_uri_has_one_canonical_form(uri: str, revision: str | None, wanted: str) -> None:
    assert str(uris.parse(uri, revision=revision)) == wanted


@pytest.mark.parametrize(
    ("uri", "revision"),
    [
        ("", None),
        ("org/name", None),
        ("hf:org/name", None),
        ("hf://", None),
        ("hf://name", None),
        ("hf://org/name/more", None),
        ("hf://org/-name", None),
        ("hf://org/..", None),
        ("hf://org/a--b", None),
        ("hf://org/name@", None),
        ("hf://org/name@v1", "v2"),
        ("hf://org/name@a b", None),
        ("hf://org/name@../../x", None),
        ("hf://org/name@-x", None),
        ("hf://org/name", "main\n"),
        ("hf://org/name?x=1", None),
        (f"oci://r/a@sha256:{HEX}", "v1"),
        (f"oci://r/A@sha256:{HEX}", None),
        (f"oci://r/../a@sha256:{HEX}", None),
        (f"oci://user:pw@r/a@sha256:{HEX}", None),
        (f"oci://r/a:tag@sha256:{HEX}", None),
        (f"oci://r/a@sha256:{HEX}\n", None),
        (f"oci://r/a@sha256:{HEX.upper()}", None),
        ("oci://r/a:latest", None),
        ("oci://r/a@sha512:" + "0" * 128, None),
    ],
)
def test_what_cannot_mean_anything_is_a_mistake_in_words(uri: str, revision: str | None) -> None:
    with pytest.raises(errors.Usage):
        uris.parse(uri, revision=revision)


def test_a_url_is_shown_without_user_query_and_fragment() -> None:
    url = "https://user:secret@cdn.example:8443/a/b?Signature=secret#secret"
    assert uris.without_secrets(url) == "https://cdn.example:8443/a/b"


@pytest.mark.parametrize(
    "url",
    ["http://[", "http://[zz]/?secret", "http://a\u2100b/?secret", "//\x1b[31m/\ud800?secret"],
)
def test_a_url_that_cannot_be_read_or_printed_is_shown_all_the_same(url: str) -> None:
    shown = uris.without_secrets(url)
    assert shown.isprintable()
    assert shown.isascii()
    assert "secret" not in shown


@pytest.mark.parametrize(
    ("uri", "resolved", "folder", "refs"),
    [
        ("hf://o/m", "c" * 40, f"hub/models--o--m/snapshots/{'c' * 40}", ["main"]),
        ("hf://o/m@v1", "c" * 40, f"hub/models--o--m/snapshots/{'c' * 40}", ["main", "v1"]),
        (f"hf://o/m@{'c' * 40}", "c" * 40, f"hub/models--o--m/snapshots/{'c' * 40}", ["main"]),
        ("modelscope://o/m@a/b", "sha256:1", "modelscope/o--m/a%2Fb", []),
        (f"oci://r/a@sha256:{HEX}", f"sha256:{HEX}", f"oci/sha256-{HEX}", []),
    ],
)
def test_a_models_place_follows_from_its_uri(
    uri: str, resolved: str, folder: str, refs: list[str]
) -> None:
    place = layout.folder_of(uris.parse(uri), resolved)
    assert str(place.folder) == folder
    assert [str(ref) for ref in place.refs] == [f"hub/models--o--m/refs/{ref}" for ref in refs]
