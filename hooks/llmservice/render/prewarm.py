"""The Job that stages weights on the cache claim: made once, and known by what it stages."""

import hashlib

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.plan import Plan, Staging
from hooks.llmservice.render.backend import CACHE_GROUP

# Failures that another try cannot mend: the fetcher's exit codes for a bad URI, missing rights, a
# model that is not there, bytes that differ, refused content, no space, a volume that cannot be
# written, and a registry that is none. All others are outages.
_FINAL_EXIT_CODES = (2, 10, 11, 12, 13, 14, 15, 16)
_RETRIES = 6

_CACHE = "/cache"
_AUTH = "/auth"
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
                            "values": list(_FINAL_EXIT_CODES),
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
        "containers": [_container(plan, staging)],
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
        "volumes": [{"name": "cache", "persistentVolumeClaim": claim}],
    }
    if staging.registry_secret:
        secret = {"defaultMode": 0o440, "secretName": staging.registry_secret}
        pod["volumes"].append({"name": "auth", "secret": secret})
    # Where the engine will run: a claim of one node must be made on one that has the accelerator.
    optional: Object = {
        "imagePullSecrets": plan.pull_secrets,
        "nodeSelector": plan.engine.node_selector,
        "tolerations": list(plan.engine.tolerations),
    }
    return pod | {field: value for field, value in optional.items() if value}


def _container(plan: Plan, staging: Staging) -> Object:
    arguments = [
        "stage",
        staging.uri,
        f"--cache={_CACHE}",
        "--termination-log=/dev/termination-log",
    ]
    mounts: list[Object] = [{"mountPath": _CACHE, "name": "cache"}]
    if staging.registry_secret:
        arguments.append(f"--registry-auth={_AUTH}/.dockerconfigjson")
        mounts.append({"mountPath": _AUTH, "name": "auth", "readOnly": True})
    container: Object = {
        # The kubelet leaves `$$` as `$`: a source's name is no place for a variable.
        "args": [argument.replace("$", "$$") for argument in arguments],
        "image": staging.image,
        "imagePullPolicy": plan.settings.image_pull_policy,
        "name": names.FETCHER_CONTAINER,
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return container | ({"env": list(staging.env)} if staging.env else {})
