import asyncio
import socket
import sys

import pytest

pytestmark = pytest.mark.process

NAMED = ("--namespace", "ns", "--service", "m")


async def run(*flags: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *flags, stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, stderr.decode()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param((), "--namespace, --service", id="nothing"),
        pytest.param((*NAMED, "--listen", "8080"), "'8080' is not host:port", id="listen"),
        pytest.param((*NAMED, "--max-queue", "0"), "'0' is not a whole number from 1", id="queue"),
        pytest.param((*NAMED, "--cold-start", "wait"), "'keepalive', 'reject'", id="mode"),
        pytest.param((*NAMED, "--replicas-from", "dns"), "file:PATH", id="source"),
        pytest.param((*NAMED, "--readiness", "{}"), "is not JSON like", id="readiness"),
        pytest.param((*NAMED, "--readiness", '{"path":"x"}'), "a leading /", id="readiness-path"),
        pytest.param(
            (*NAMED, "--readiness", '{"path":5}'), "is not JSON like", id="readiness-type"
        ),
        pytest.param((*NAMED, "--readiness", "[" * 5000), "is not JSON like", id="readiness-deep"),
        pytest.param((*NAMED, "--target", "nan"), "'nan' is not a number", id="target"),
        pytest.param((*NAMED, "--no-such-flag"), "--no-such-flag", id="unknown"),
    ],
)
async def test_a_usage_error_is_one_line_and_exit_2(flags: tuple[str, ...], says: str) -> None:
    code, stderr = await run(*flags)
    assert code == 2
    assert stderr.count("\n") == 1
    assert says in stderr


@pytest.mark.parametrize("flag", ["--listen", "--scaler-listen"])
async def test_a_port_in_use_is_one_line_and_exit_1(flag: str) -> None:
    other = {"--listen": "--scaler-listen", "--scaler-listen": "--listen"}[flag]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        code, stderr = await run(*NAMED, other, "127.0.0.1:0", flag, at)
    assert code == 1
    assert stderr == f"noctaya-gateway: {flag}: cannot listen on {at}: Address already in use\n"


@pytest.mark.parametrize("host", ["a..b", "no-such-host.invalid"])
async def test_a_host_that_cannot_be_listened_on_is_one_line_and_exit_1(host: str) -> None:
    code, stderr = await run(*NAMED, "--scaler-listen", "127.0.0.1:0", "--listen", f"{host}:1")
    assert code == 1
    assert stderr.startswith(f"noctaya-gateway: --listen: cannot listen on {host}:1: ")
    assert stderr.count("\n") == 1
    assert "Unknown error" not in stderr
