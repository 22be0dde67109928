"""What the user sees: one line for every change, for a person or for a program."""

import dataclasses
import datetime
import json
from pathlib import Path

from hooks.llmservice.reasons import Reason


@dataclasses.dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One service at one moment, in the words of its own status."""

    service: str
    namespace: str
    phase: str
    reason: str
    message: str
    replicas: int
    """That are ready."""
    waiting: int
    running: int
    endpoint: str


def is_news(new: Snapshot, old: Snapshot | None, *, as_json: bool) -> bool:
    """A program wants every change; a person is spared each step of a count under load."""
    if old is None or as_json:
        return new != old
    return _outline(new) != _outline(old)


# What a reason's help says here, where a cluster's words mean nothing.
_HERE = {
    Reason.ACTIVATING: "A replica is wanted, and its engine is about to be started.",
    Reason.STARTING: "The engine is being started.",
    Reason.CRASH_LOOP_BACK_OFF: "The engine ends again and again: --log-dir DIR keeps its log.",
}


def message(reason: str, words: str, refusal: str) -> str:
    """The words of a status as this machine has to say them; ``refusal`` is what a replica that is
    not ready answers its readiness request, if that looks like a mistake."""
    for known, here in _HERE.items():
        words = words.replace(known.help, here) if reason == known.value else words
    if not refusal or reason != Reason.MODEL_LOADING.value:
        return words
    return f"{words} {refusal}: see spec.health.readiness of its InferenceRuntime."


def json_line(snapshot: Snapshot, *, at: datetime.datetime) -> str:
    time = at.astimezone(datetime.UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": time, **dataclasses.asdict(snapshot)})


def line(snapshot: Snapshot, *, at: datetime.datetime) -> str:
    name = f"{snapshot.namespace}/{snapshot.service}"
    counts = f"{snapshot.replicas} ready, {snapshot.waiting} waiting, {snapshot.running} running"
    said = f"{snapshot.reason}: {snapshot.message}" if snapshot.message else snapshot.reason
    return f"{at:%H:%M:%S}  {name}  {snapshot.phase:<12}  [{counts}]  {said}"


def _outline(snapshot: Snapshot) -> Snapshot:
    return dataclasses.replace(
        snapshot, waiting=min(snapshot.waiting, 1), running=min(snapshot.running, 1)
    )


def introduction(endpoint: str, model: str | None, logs: Path, *, keyed: bool) -> str:
    """The endpoint, a call to paste, and where to look when it fails."""
    body = {
        **({"model": model} if model else {}),
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
    }
    key = "-H 'Authorization: Bearer YOUR-KEY' " if keyed else ""
    return (
        f"\n  {endpoint} takes requests; logs are in {logs}. Try:\n"
        f"  curl -N {endpoint}/chat/completions -H 'Content-Type: application/json' "
        f"{key}-d '{json.dumps(body)}'\n"
    )
