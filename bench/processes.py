"""What every bench needs of the processes that it measures: ports, CPU, memory."""

import contextlib
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def until_it_answers(url: str, *, within: float = 60) -> None:
    """Until something answers there, whatever it says; raises OSError where nothing does."""
    end = time.monotonic() + within
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.005)


def cpu_seconds(pid: int) -> float:
    """Of the process and all below it so far, read from the scheduler."""
    spent = 0
    for member in _family(pid):
        for task in Path(f"/proc/{member}/task").iterdir():
            with contextlib.suppress(OSError):
                spent += int((task / "schedstat").read_text().split()[0])
    return spent / 1e9


def resident_kib(pid: int) -> int:
    """Of the process and all below it; pages that they share count once for each."""
    return sum(_status(member, "VmRSS") for member in _family(pid))


def core_share(pid: int, seconds: float) -> float:
    """Of one core, over the next ``seconds``."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began)


def _status(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0])


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from _family(int(child))
