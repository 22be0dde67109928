import base64
import json
import pathlib

import pytest

from fetcher import errors
from fetcher.sources import challenges, dockerconfig


def entry(user: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:pw".encode()).decode()}


@pytest.mark.parametrize(
    ("keys", "registry", "repository", "wanted"),
    [
        (["r.example"], "r.example", "a/b", "r.example"),
        (["https://r.example"], "r.example", "a", "https://r.example"),
        (["https://r.example/v1/"], "r.example", "a", "https://r.example/v1/"),
        (["http://r.example/v2/"], "r.example", "a", "http://r.example/v2/"),
        (["R.Example"], "r.example", "a", "R.Example"),
        (["r.example", "r.example/a"], "r.example", "a/b", "r.example/a"),
        (["r.example", "r.example/a"], "r.example", "ab", "r.example"),
        (["r.example:5000"], "r.example", "a", ""),
        (["r.example.evil"], "r.example", "a", ""),
        (["https://index.docker.io/v1/"], "docker.io", "library/a", "https://index.docker.io/v1/"),
        (["docker.io"], "index.docker.io", "library/a", "docker.io"),
    ],
)
def test_the_entry_that_covers_a_repository_best_is_taken(
    tmp_path: pathlib.Path, keys: list[str], registry: str, repository: str, wanted: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": {key: entry(f"u{n}") for n, key in enumerate(keys)}}))
    found = dockerconfig.load(str(path), registry, repository)
    assert found.user == (f"u{keys.index(wanted)}" if wanted else "")
    assert found.anonymous is (wanted == "")


def test_a_password_may_hold_colons_and_is_not_shown(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config.json"
    auth = base64.b64encode(b"user:a:b").decode()
    path.write_text(json.dumps({"auths": {"r": {"auth": auth}}}))
    found = dockerconfig.load(str(path), "r", "a")
    assert (found.user, found.password) == ("user", "a:b")
    assert "a:b" not in repr(found)


@pytest.mark.parametrize("auth", ["!", "dXNlcg==", "OnB3", ""])
def test_an_entry_that_holds_nothing_usable_is_a_mistake(tmp_path: pathlib.Path, auth: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": {"r": {"auth": auth, "email": "x"}}}))
    with pytest.raises(errors.Usage, match="no usable auth"):
        dockerconfig.load(str(path), "r", "a")


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", []),
        ("Basic realm=x", [("basic", {"realm": "x"})]),
        ('Basic realm="a b, c"', [("basic", {"realm": "a b, c"})]),
        (
            'Bearer realm="https://a/t",service="s",scope="repository:a/b:pull,push"',
            [
                (
                    "bearer",
                    {"realm": "https://a/t", "service": "s", "scope": "repository:a/b:pull,push"},
                )
            ],
        ),
        (
            'Negotiate, Bearer realm="x", Basic realm="q\\"q"',
            [("negotiate", {}), ("bearer", {"realm": "x"}), ("basic", {"realm": 'q"q'})],
        ),
        ("realm=x", []),
        ('Bearer realm="x', [("bearer", {})]),
    ],
)
def test_challenges_are_read_as_registries_write_them(
    header: str, wanted: list[tuple[str, dict[str, str]]]
) -> None:
    assert [(c.scheme, c.parameters) for c in challenges.parse(header)] == wanted
