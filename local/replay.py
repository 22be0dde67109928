"""``noctaya replay``: the answer to a recorded request, and why it is this one."""

import datetime
from collections.abc import Iterator
from pathlib import Path

from hooks import questions, wire
from hooks.autoscaling import sync as autoscaling
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import gateways, names, plan, table
from hooks.llmservice import sync as llmservice
from hooks.llmservice.arrange import Arrangement
from hooks.llmservice.names import ServiceName
from hooks.llmservice.plan import Plan, Unresolved
from hooks.llmservice.resolve import read_spec
from local import printing, recordings
from local.errors import Failure
from local.recordings import Recording


def run(file: Path) -> None:
    """Prints the reasons as YAML's comments and the answer as YAML. Raises Usage or Failure.

    What is printed may be kept as the request's ``expected.yaml``.
    """
    asked = recordings.read(file)
    try:
        answer = recordings.answer(asked)
        reasons = list(explained(asked, answer))
    except wire.RequestError as e:
        raise Failure(f"{file}: refused with 400: {e}") from e
    for reason in reasons:
        # On one line: what follows a line break is no comment.
        printing.say(" ".join(["#", *reason.split()]))
    printing.say(recordings.to_yaml(answer), end="")


def explained(asked: Recording, answer: Object) -> Iterator[str]:
    """Why the answer is this one, a line for each thing that it decides."""
    parent = objects.mapping(asked.body, "object") or objects.mapping(asked.body, "parent")
    at = objects.format_time(asked.circumstances.at)
    when = f"at {at}" if asked.timed else f"as if at {at}, since the file does not tell when"
    yield f"asked {asked.circumstances.path} about {objects.identity(parent).key} {when}"
    match asked.circumstances.path:
        case questions.COMPOSITE_SYNC:
            yield from _composite(asked)
        case questions.DECORATOR_SYNC:
            yield from _decorator(asked)
        case questions.RUNTIME_SYNC:
            accepted = objects.condition(answer, "Accepted")
            yield f"Accepted is {accepted['status']}, {accepted['reason']}: {accepted['message']}"
            yield "attachments: none, since a runtime's status is all that is written"
        case _:
            for rule in answer["relatedResources"]:
                yield f"related: {_rule(rule)}"


def _composite(asked: Recording) -> Iterator[str]:
    request = wire.load(wire.CompositeRequest, asked.body)
    found = asked.circumstances
    decision = llmservice.decide(request, settings=found.settings, now=found.at)
    arrangement, judgement = decision.arrangement, decision.judgement
    yield f"spec: {_outcome(decision.outcome)}"
    if isinstance(decision.outcome, Unresolved):
        yield "children: as they were last applied, since the spec does not resolve"
    else:
        yield "children: as rendered from the spec"
        yield from _gateways(decision.outcome.gateway)
    yield f"weights: {arrangement.weights.name.lower().replace('_', ' ')}"
    for taken in arrangement.taken:
        why = "of an earlier service of this name" if taken.going else "that is not ours"
        yield f"withheld: {taken.kind} {taken.name}, a name that is held by an object {why}"
    yield f"replicas of the backend: {_replicas(arrangement, request.parent)}"
    yield f"status: {_row(judgement.status)}"
    yield f"next look: {_next_look(judgement.look_again_seconds)}"


def _gateways(gateway: plan.Gateway) -> Iterator[str]:
    now = gateway.formation
    if now != gateways.formation_of(gateway.replicas):
        asked = "the scaler of several" if now.asked == "scaler" else "the one gateway"
        numbers = f"{now.gateways} on the way between one and several, wanted: {gateway.replicas}"
        yield f"gateways: {numbers}; KEDA's Service leads to {asked}"


def _decorator(asked: Recording) -> Iterator[str]:
    request = wire.load(wire.DecoratorRequest, asked.body)
    step, answer = autoscaling.decide(request, now=asked.circumstances.at)
    yield f"spec: {_outcome(read_spec(request.parent))}"
    yield f"hand-over to KEDA: {step.value}"
    said = answer.annotations.get(names.AUTOSCALING)
    yield f"words of KEDA for the Composite: {said or 'none yet'}"


def _outcome(outcome: object) -> str:
    match outcome:
        case Unresolved(reason=reason, message=message):
            return f"does not resolve, {reason}: {message}"
        case Plan(runtime=runtime):
            return f"resolves, with InferenceRuntime {runtime}"
        case _:
            return "can be read"


def _replicas(arrangement: Arrangement, parent: Object) -> str:
    service = ServiceName(objects.text(parent, "metadata", "name"))
    namespace = objects.text(parent, "metadata", "namespace")
    backend = names.child(names.DEPLOYMENTS, namespace, names.backend(service))
    number = objects.number(arrangement.children.get(backend), "spec", "replicas")
    return f"{'none' if number is None else number}, {arrangement.replicas_rule.value}"


def _row(status: Object) -> str:
    row = table.row_of(status)
    ready = objects.condition({"status": status}, "Ready")
    said = f"Ready is {ready['status']}, {ready['reason']}: {ready['message']}"
    words = f"row {table.number(row)} ({row.state}); {said}"
    return words if row.phases else f"{words}; phase {status['phase']} is as the children are seen"


def _next_look(seconds: float) -> str:
    if not seconds:
        return "when something changes"
    return f"after {datetime.timedelta(seconds=round(seconds))}, since a deadline ends then"


def _rule(rule: Object) -> str:
    where = f" in {rule['namespace']}" if "namespace" in rule else ""
    chosen = ", ".join(rule.get("names", ())) or objects.compact(rule.get("labelSelector", {}))
    return (
        f"{rule['resource']} of {rule['apiVersion']}{where}: {'all' if chosen == '{}' else chosen}"
    )
