"""What a person would look at after a failure, gathered as text."""

import json

from tests.cluster import control_plane, errors, layout, programs

_EVENTS = 40
_LOG_LINES = 25


def report(instance: layout.Instance, namespace: str | None = None) -> str:
    """Pods, recent events, the logs of Pods that tests made, and programs that ended."""
    scope = [f"--namespace={namespace}"] if namespace else ["--all-namespaces"]
    sections = [
        ("programs", _programs(instance)),
        ("objects", _ask(instance, "get", "deploy,pod,svc,endpointslice", *scope, "-o=wide")),
        ("events", _events(instance, scope)),
        ("LLMServices and ScaledObjects", _ours(instance, scope)),
        ("Pods' logs", _logs(instance, scope)),
    ]
    return "\n".join(f"--- {title}\n{text.strip()}" for title, text in sections if text.strip())


def _programs(instance: layout.Instance) -> str:
    lines = []
    for program in programs.recorded(instance):
        state = "runs" if program.alive() else f"ENDED: {program.last_words()}"
        lines.append(f"{program.name}: {state} ({program.log})")
    return "\n".join(lines)


def _events(instance: layout.Instance, scope: list[str]) -> str:
    text = _ask(instance, "get", "events", *scope, "--sort-by=.lastTimestamp")
    return "\n".join(text.splitlines()[-_EVENTS:])


def _ours(instance: layout.Instance, scope: list[str]) -> str:
    """Whole objects, because their conditions tell most; kinds that are missing say nothing."""
    texts = []
    for kind in ("llmservices.serving.noctaya.io", "scaledobjects.keda.sh"):
        text = _ask(instance, "get", kind, *scope, "--output=yaml")
        if "doesn't have a resource type" not in text and "items: []" not in text:
            texts.append(text)
    return "\n".join(texts)


def _logs(instance: layout.Instance, scope: list[str]) -> str:
    try:
        pods = json.loads(control_plane.kubectl(instance, "get", "pods", *scope, "-o=json"))
    except errors.RigError as e:
        return str(e)
    texts = []
    for pod in pods["items"]:
        name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
        options = ["--all-containers", "--ignore-errors", f"--tail={_LOG_LINES}"]
        text = _ask(instance, "logs", name, f"--namespace={space}", *options)
        texts.append(f"[{space}/{name}]\n{text.strip()}")
    return "\n".join(texts)


def _ask(instance: layout.Instance, *arguments: str) -> str:
    """Never raises: a report on a broken cluster shall say what it can."""
    try:
        return control_plane.kubectl(instance, *arguments, "--request-timeout=5s")
    except errors.RigError as e:
        return str(e)
