"""The cache claim: made once, and known by a hash of what was asked for."""

import hashlib

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.plan import CacheClaim, Plan


def claim(plan: Plan, cache: CacheClaim) -> Object:
    """The claim that weights are kept on."""
    spec: Object = {
        "accessModes": [cache.access_mode],
        "resources": {"requests": {"storage": cache.size}},
    }
    if cache.storage_class:
        spec["storageClassName"] = cache.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "annotations": {names.SPEC_HASH: _digest(spec)},
            "labels": names.labels(plan.service, "backend"),
            "name": names.cache(plan.service),
            "namespace": plan.namespace,
        },
        "spec": spec,
    }


def _digest(spec: Object) -> str:
    return hashlib.sha256(objects.compact(spec).encode()).hexdigest()[:16]
