"""Arguments and variables that cannot mean anything: told in words, with exit code 2."""

import pytest

from fetcher import cli


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--connections=0"], "argument --connections: '0': expected a whole number of at least 1"),
        (["--tries=many"], "argument --tries: 'many': expected a whole number of at least 1"),
        (
            ["--idle-timeout-seconds=x"],
            "argument --idle-timeout-seconds: 'x': expected a number above 0 and below 86400",
        ),
        (["--idle-timeout-seconds=nan"], "'nan': expected a number above 0 and below 86400"),
        (["--open-folder=a/b"], "argument --open-folder: 'a/b': expected the name of one folder"),
    ],
)
def test_a_flag_that_cannot_be_used_is_told_in_words(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["stage", "hf://org/m", "--cache=.", *arguments])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(said)


@pytest.mark.parametrize(
    ("variable", "uri", "value"),
    [
        ("HF_ENDPOINT", "hf://org/m", "foo"),
        ("HF_ENDPOINT", "hf://org/m", "ftp://foo"),
        ("HF_ENDPOINT", "hf://org/m", "https://"),
        ("MODELSCOPE_ENDPOINT", "modelscope://org/m", "ftp://foo"),
    ],
)
def test_an_endpoint_that_is_no_address_is_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    uri: str,
    value: str,
) -> None:
    monkeypatch.setenv(variable, value)
    assert cli.main(["plan", uri]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: {variable}={value} is not an http or https address: ")
