"""The Job that stages weights on the cache claim: made once, and known by what it stages."""

import hashlib

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.plan import Plan, Staging
from hooks.llmservice.render import fetcher
from hooks.llmservice.render.backend import CACHE_GROUP

_RETRIES = 6

_USER = 65532


def job(plan: Plan, staging: Staging, *, claim_uid: str) -> Object:
    """The Job, for the claim that has this uid."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "annotations": {names.CLAIM_UID: claim_uid, names.SPEC_HASH: spec_hash(staging)},
            "labels": names.labels(plan.service, "prewarm"),
            "name": names.prewarm(plan.service),
            "namespace": plan.namespace,
        },
        "spec": {
            "backoffLimit": _RETRIES,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": names.FETCHER_CONTAINER,
                            "operator": "In",
                            "values": list(fetcher.FINAL_EXIT_CODES),
                        },
                    }
                ]
            },
            "template": {
                "metadata": {"labels": names.labels(plan.service, "prewarm")},
                "spec": _pod(plan, staging),
            },
        },
    }


def spec_hash(staging: Staging) -> str:
    """Tells one staging from another by what it brings onto the claim, and by nothing else.

    A newer fetcher or another token brings the same weights, so neither makes a Job of the past
    wrong.
    """
    return hashlib.sha256(objects.compact({"uri": staging.uri}).encode()).hexdigest()[:16]


def _pod(plan: Plan, staging: Staging) -> Object:
    claim = {"claimName": names.cache(plan.service)}
    pod: Object = {
        "automountServiceAccountToken": False,
        "containers": [fetcher.container(staging, security={"capabilities": {"drop": ["ALL"]}})],
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": {
            "fsGroup": CACHE_GROUP,
            "fsGroupChangePolicy": "OnRootMismatch",
            "runAsGroup": _USER,
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [
            {"name": "cache", "persistentVolumeClaim": claim},
            *fetcher.auth_volumes(staging, mode=0o440),
        ],
    }
    # Where the engine will run: a claim of one node must be made on one that has the accelerator.
    optional: Object = {
        "imagePullSecrets": plan.pull_secrets,
        "nodeSelector": plan.engine.node_selector,
        "tolerations": list(plan.engine.tolerations),
    }
    return pod | {field: value for field, value in optional.items() if value}
