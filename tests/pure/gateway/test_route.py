import pytest

from gateway.route import Kind, target


def kind(method: str, raw: str, *extra: str) -> Kind:
    return target(method, raw, extra_paths=frozenset(extra)).kind


@pytest.mark.parametrize(
    ("raw", "decoded"),
    [
        ("/v1/chat/completions?x=%2F", "/v1/chat/completions"),
        ("/v1%2Fchat/completions", "/v1/chat/completions"),
        ("/%76%31/models", "/v1/models"),
        ("http://elsewhere/v1/models", "/v1/models"),
        ("HTTPS://elsewhere/v1/models?q", "/v1/models"),
    ],
)
def test_the_list_reads_the_decoded_path(raw: str, decoded: str) -> None:
    found = target("POST", raw, extra_paths=frozenset())
    assert (found.kind, found.path) == (Kind.INFERENCE, decoded)
    assert found.raw == raw.removeprefix("http://elsewhere").removeprefix("HTTPS://elsewhere")


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "*",
        "v1/models",
        "/",
        "//v1/models",
        "/v1//models",
        "/v1/./models",
        "/v1/models/..",
        "/v1/%2e%2e/metrics",
        "/v1/%252fx",
        "/v1/%5c..",
        "/v1/%0a",
        "/v1/%80",
        "/v1/models#x",
        "/V1/models",
        "/v1",
        "http://elsewhere",
        "http:///v1/../x",
        "ftp://elsewhere/v1/models",
        "/v1/load_lora_adapter",
        "/v1/load_lora_adapter/",
        "/v1/%6coad_lora_adapter",
        "/metrics/",
        "/healthz/x",
    ],
)
def test_everything_else_leads_nowhere(raw: str) -> None:
    assert kind("POST", raw) is Kind.NOWHERE
    assert kind("GET", raw) is Kind.NOWHERE


def test_only_a_post_may_wake_the_model() -> None:
    assert kind("POST", "/tokenize") is Kind.INFERENCE
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"):
        assert kind(method, "/tokenize") is Kind.LOOKUP
    for method in ("CONNECT", "TRACE"):
        assert kind(method, "/tokenize") is Kind.METHOD_NOT_ALLOWED


def test_a_runtime_extends_the_list_by_whole_paths() -> None:
    assert kind("POST", "/generate", "/generate") is Kind.INFERENCE
    assert kind("POST", "/generate/x", "/generate") is Kind.NOWHERE


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/noctaya/queue"])
def test_the_own_paths_cannot_be_given_to_the_engine(path: str) -> None:
    assert kind("GET", path, path) is Kind.OWN
    assert kind("HEAD", path + "?watch=true") is Kind.OWN
    assert kind("POST", path, path) is Kind.METHOD_NOT_ALLOWED
