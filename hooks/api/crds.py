"""Writes `crds/` from the models: ``python -m hooks.api.crds [--check] [DIRECTORY]``.

With ``--check`` nothing is written; the exit code is 1 where a file differs from the models.
"""

import json
import sys
from typing import Any

from hooks import generated
from hooks.api import GROUP, VERSION, llmservice, runtime, schema
from hooks.api.fields import Rule

CRD = dict[str, Any]

_HEADER = "# Generated from hooks/api by `python -m hooks.api.crds`; edit the models instead.\n"


def llmservices() -> CRD:
    """The CRD of LLMService."""
    return _crd(
        kind="LLMService",
        plural="llmservices",
        short="llm",
        scope="Namespaced",
        spec=schema.of_model(llmservice.LLMServiceSpec),
        status=_service_status(),
        rules=llmservice.NAME_RULES,
        columns=[
            _column("Phase", ".status.phase"),
            _column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            _column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
            _column("Replicas", ".status.replicas", kind="integer"),
            _column("Runtime", ".status.resolvedRuntime"),
            _column("URL", ".status.endpointURL", priority=1),
            _column("Age", ".metadata.creationTimestamp", kind="date"),
        ],
    )


def inferenceruntimes() -> CRD:
    """The CRD of InferenceRuntime."""
    return _crd(
        kind="InferenceRuntime",
        plural="inferenceruntimes",
        short="irt",
        scope="Cluster",
        spec=schema.of_model(runtime.InferenceRuntimeSpec),
        status=_status({}),
        rules=(),
        columns=[
            _column("Vendor", ".spec.vendor"),
            _column("Priority", ".spec.priority", kind="integer"),
            _column("Accepted", '.status.conditions[?(@.type=="Accepted")].status'),
            _column("Reason", '.status.conditions[?(@.type=="Accepted")].reason'),
            _column("Image", ".spec.container.image"),
            _column("Age", ".metadata.creationTimestamp", kind="date"),
        ],
    )


def files() -> dict[str, str]:
    """File name -> text, for every file that stands in `crds/`."""
    return {
        f"{GROUP}_{crd['spec']['names']['plural']}.yaml": _HEADER + to_yaml(crd)
        for crd in (llmservices(), inferenceruntimes())
    }


def _crd(
    *,
    kind: str,
    plural: str,
    short: str,
    scope: str,
    spec: CRD,
    status: CRD,
    rules: tuple[Rule, ...],
    columns: list[CRD],
) -> CRD:
    root: CRD = {
        "type": "object",
        "description": spec["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"{kind}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    if rules:
        root["x-kubernetes-validations"] = [_at_creation(rule) for rule in rules]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["noctaya"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": root},
                }
            ],
        },
    }


def _column(name: str, path: str, *, kind: str = "string", priority: int = 0) -> CRD:
    column: CRD = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": priority} if priority else column


def _service_status() -> CRD:
    return _status(
        {
            "phase": {
                "type": "string",
                "enum": list(llmservice.PHASES),
                "description": "Summary of the service's state.",
            },
            "resolvedRuntime": {
                "type": "string",
                "description": "Name of the InferenceRuntime in use.",
            },
            "replicas": {
                "type": "integer",
                "format": "int32",
                "description": "Ready backend replicas; gateway replicas are not counted.",
            },
            "endpointURL": {
                "type": "string",
                "description": "Base URL of the OpenAI-compatible API inside the cluster.",
            },
            "lastFailure": {
                "type": "object",
                "description": "The last failed activation. Kept while the service is at zero,"
                " until a replica becomes ready or the Pod template changes.",
                "properties": {
                    "reason": {"type": "string", "description": "Reason of the failure."},
                    "message": {"type": "string", "description": "What failed, in words."},
                    "templateHash": {
                        "type": "string",
                        "description": "Hash of the Pod template that failed.",
                    },
                },
            },
        }
    )


def _status(properties: CRD) -> CRD:
    return {
        "type": "object",
        "description": "What was observed last; written by Noctaya.",
        "properties": {
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "Generation of the spec that this status was computed from.",
            },
            **properties,
            "conditions": {
                "type": "array",
                "description": "Conditions; kubectl describe shows their messages.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": _condition(),
            },
        },
    }


def _condition() -> CRD:
    text = {"type": "string"}
    return {
        "type": "object",
        "description": "One aspect of the state.",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": text | {"description": "Name of the aspect."},
            "status": text
            | {"enum": ["True", "False", "Unknown"], "description": "Whether it holds."},
            "reason": text | {"description": "Why, in one word."},
            "message": text | {"description": "Why, in words, and what to do."},
            "lastTransitionTime": text
            | {"format": "date-time", "description": "When status changed last."},
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "Generation of the spec that this condition was computed from.",
            },
        },
    }


def _at_creation(rule: Rule) -> CRD:
    """A rule of the whole object, which an API server would else hold against every later write.

    A status and finalizers are written to objects older than the rule, too.
    """
    return {
        "rule": f"oldSelf.hasValue() || {rule.rule}",
        "message": rule.message,
        "optionalOldSelf": True,
    }


# --- Text -----------------------------------------------------------------------------------------


def to_yaml(value: Any, indent: int = 0) -> str:
    """Block YAML of JSON-like data. Scalars are written as JSON, which is YAML too."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        return "".join(f"{pad}{_key(key)}:{_beside(item, indent)}" for key, item in value.items())
    if isinstance(value, list) and value:
        return "".join(_item(item, indent) for item in value)
    return f"{pad}{json.dumps(value, ensure_ascii=False)}\n"


def _key(key: str) -> str:
    return key if key.replace("-", "").isalnum() else json.dumps(key)


def _beside(value: Any, indent: int) -> str:
    if isinstance(value, dict | list) and value:
        return "\n" + to_yaml(value, indent + 1)
    return f" {json.dumps(value, ensure_ascii=False)}\n"


def _item(item: Any, indent: int) -> str:
    text = to_yaml(item, indent + 1)
    return "  " * indent + "- " + text[2 * (indent + 1) :]


def main(arguments: list[str] | None = None) -> int:
    return generated.main(
        files(), arguments, module="hooks.api.crds", directory="crds", description=__doc__
    )


if __name__ == "__main__":
    sys.exit(main())
