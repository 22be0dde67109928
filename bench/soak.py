"""Cold and warm, over and over, under impatient clients: ``python -m bench.soak``.

One gateway, one echo engine that comes and goes, and clients that stream, ask plainly, or leave.
At the end nothing may be left over: memory as flat as after the first quarter, and every request
with an outcome that its client knows of.
"""

import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

from bench import report
from bench.processes import free_port, resident_kib, until_it_answers

WARM_SECONDS, COLD_SECONDS, LOAD_SECONDS = 12.0, 6.0, 1.0
GROWN_MIB = 4.0
# What the clients here can bring about; everything else needs an explanation.
EXPLAINED = {"served", "abandoned"}
GAUGES = ("demand", "waiting", "in_flight", "admitted", "held_bytes")


class _Rig:
    def __init__(self, folder: Path) -> None:
        self._replicas = folder / "replicas.json"
        self.tell(None)
        self.port = free_port()
        self._log = (folder / "log").open("wb")
        self.gateway = subprocess.Popen(
            [
                *(sys.executable, "-m", "gateway", "--namespace", "soak", "--service", "soak"),
                *("--listen", f"127.0.0.1:{self.port}"),
                *("--scaler-listen", f"127.0.0.1:{free_port()}", "--max-queue", "1000"),
                *("--replicas-from", f"file:{self._replicas}", "--readiness", '{"path":"/health"}'),
                *("--heartbeat-interval-seconds", "1", "--min-replicas", "1"),
            ],
            stderr=self._log,
        )
        until_it_answers(f"http://127.0.0.1:{self.port}/healthz")
        self._engine: subprocess.Popen[bytes] | None = None

    def tell(self, port: int | None, *, terminating: bool = False) -> None:
        """The engine's address, as an endpoint controller would list it."""
        conditions = {"ready": False, "terminating": terminating}
        endpoint = {"addresses": ["127.0.0.1"], "conditions": conditions}
        piece = {"ports": [{"name": "http", "port": port}], "endpoints": [endpoint]}
        fresh = self._replicas.with_suffix(".new")
        fresh.write_text(json.dumps({"items": [] if port is None else [piece]}))
        fresh.rename(self._replicas)

    def wake(self) -> int:
        port = free_port()
        flags = ("--load-seconds", f"{LOAD_SECONDS}", "--tokens-per-second", "40")
        command = [sys.executable, "-m", "engine", "--model", "m", "--host", "127.0.0.1", *flags]
        self._engine = subprocess.Popen([*command, "--port", f"{port}"], stderr=self._log)
        self.tell(port)
        return port

    def sleep(self, port: int) -> None:
        """As Kubernetes does it: terminating first, then the signal, then gone."""
        assert self._engine is not None
        self.tell(port, terminating=True)
        time.sleep(1.5)
        self._engine.terminate()
        self._engine.wait(60)
        self._engine = None
        self.tell(None)

    def end(self) -> int:
        if self._engine is not None:
            self._engine.kill()
            self._engine.wait()
        self.gateway.terminate()
        code = self.gateway.wait(90)
        self._log.close()
        return code

    def resident_mib(self) -> float:
        return resident_kib(self.gateway.pid) / 1024


async def _client(port: int, until: float, said: Counter[str]) -> None:
    """One request after the other; each third is left before its answer."""
    while time.monotonic() < until:
        stream = random.random() < 0.6
        body = json.dumps({"model": "m", "stream": stream, "messages": _MESSAGES}).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_HEAD % len(body) + body)
        try:
            if random.random() < 0.33:
                await asyncio.sleep(random.random() * 2)
                said["left"] += 1
            else:
                answer = await reader.read()
                said["whole" if _whole(answer) else f"not whole: {answer[-120:]!r}"] += 1
        except ConnectionError as e:
            said[f"broken: {e!r}"] += 1
        finally:
            writer.close()
        await asyncio.sleep(random.random() * 0.5)


_HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: soak\r\ncontent-type: application/json\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n"
)
_MESSAGES = [{"role": "user", "content": "how long will this go on"}]


def _whole(answer: bytes) -> bool:
    if not answer.startswith(b"HTTP/1.1 200"):
        return False
    if b"text/event-stream" in answer:
        return (
            b"data: [DONE]" in answer and b'"error"' not in answer and answer.endswith(b"0\r\n\r\n")
        )
    return b'"finish_reason"' in answer


async def _cycles(rig: _Rig, until: float) -> list[float]:
    """Memory in MiB at the end of each cycle."""
    resident = []
    while time.monotonic() < until:
        port = await asyncio.to_thread(rig.wake)
        await asyncio.sleep(LOAD_SECONDS + WARM_SECONDS)
        await asyncio.to_thread(rig.sleep, port)
        await asyncio.sleep(COLD_SECONDS)
        resident.append(rig.resident_mib())
    # The last requests need somebody to answer them.
    await asyncio.to_thread(rig.wake)
    return resident


async def _soak(rig: _Rig, clients: int, seconds: float) -> tuple[Counter[str], list[float]]:
    said: Counter[str] = Counter()
    until = time.monotonic() + seconds
    tasks = [asyncio.create_task(_client(rig.port, until, said)) for _ in range(clients)]
    resident = await _cycles(rig, until)
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    return said, resident


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def main() -> int:
    parser = report.flags("soak", __doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=200)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rig = _Rig(Path(folder))
        try:
            said, resident = asyncio.run(_soak(rig, flags.clients, flags.minutes * 60))
            time.sleep(1)
            metrics = _metrics(rig.port)
        finally:
            code = rig.end()
    about = f"{flags.clients} clients, {flags.minutes:g} minutes, {len(resident)} cold starts"
    return report.publish(_section(about, said, resident, metrics, code), write=flags.write)


def _section(
    about: str, said: Counter[str], resident: list[float], metrics: str, code: int
) -> report.Section:
    outcomes = Counter[str]()
    for outcome, count in re.findall(r'noctaya_requests_total{outcome="(\w+)".*?} (\S+)', metrics):
        outcomes[outcome] += int(float(count))
    left = {g: float(re.findall(rf"^noctaya_{g} (\S+)", metrics, re.M)[0]) for g in GAUGES}
    unexplained = {o: n for o, n in outcomes.items() if o not in EXPLAINED}
    odd = {s: n for s, n in said.items() if s not in ("whole", "left")}
    wrong = [f"unexplained outcome {outcome}: {count}" for outcome, count in unexplained.items()]
    wrong += [f"clients saw: {s}" for s in list(odd)[:5]]
    wrong += [f"left over: {gauge} {value:g}" for gauge, value in left.items() if value]
    if code != 0:
        wrong.append(f"the gateway ended with {code}")
    return report.Section(
        name="soak",
        title="Soak: cold and warm, over and over",
        how=(
            f"{about}; a third of the clients leave before their answer. They saw {said['whole']} "
            f"whole answers and left {said['left']} times; the gateway recorded "
            f"{', '.join(f'{n} {o}' for o, n in sorted(outcomes.items()))}. Resident: "
            f"{resident[0]:.1f} MiB after the first cycle, {resident[-1]:.1f} MiB after the last."
        ),
        targets=[
            report.Target(
                what="memory grown since the first quarter",
                measured=resident[-1] - resident[len(resident) // 4],
                at_most=GROWN_MIB,
                unit=" MiB",
            ),
            report.Target(
                what="outcomes that the clients do not explain",
                measured=sum(unexplained.values()),
                at_most=0,
            ),
            report.Target(
                what="answers that were not whole", measured=sum(odd.values()), at_most=0
            ),
            report.Target(
                what="slots, bytes and demand left over", measured=sum(left.values()), at_most=0
            ),
            report.Target(what="exit code of the gateway", measured=code, at_most=0),
        ],
        notes=wrong,
    )


if __name__ == "__main__":
    sys.exit(main())
