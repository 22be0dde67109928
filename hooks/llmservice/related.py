"""What a sync needs to see beside the parent and its children.

The rules depend on the parent's spec, name and namespace only: Metacontroller keeps them per
generation. Every rule for a namespaced kind names the namespace, since a rule without one matches
all of them.
"""

from hooks import wire
from hooks.api import API_VERSION
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.names import ServiceName


def rules(parent: Object) -> list[wire.RelatedRule]:
    """The rules for ``parent``: its runtimes, its Pods, and whatever holds a child's name."""
    service = ServiceName(objects.text(parent, "metadata", "name"))
    namespace = objects.text(parent, "metadata", "namespace")
    held = [
        (
            "apps/v1",
            "deployments",
            (names.backend(service), names.gateway(service), names.scaler(service)),
        ),
        ("policy/v1", "poddisruptionbudgets", (names.gateway(service),)),
        (
            "v1",
            "services",
            (names.endpoint(service), names.backend(service), names.scaler(service)),
        ),
        ("v1", "serviceaccounts", (names.gateway(service),)),
        ("rbac.authorization.k8s.io/v1", "rolebindings", (names.gateway(service),)),
        ("v1", "persistentvolumeclaims", (names.cache(service),)),
        ("batch/v1", "jobs", (names.prewarm(service),)),
    ]
    pods = wire.RelatedRule(
        api_version="v1",
        resource="pods",
        namespace=namespace,
        label_selector={"matchLabels": {names.LABEL_SERVICE: service}},
    )
    return [
        *_runtimes(parent),
        pods,
        *(
            wire.RelatedRule(
                api_version=version, resource=resource, namespace=namespace, names=holders
            )
            for version, resource, holders in held
        ),
    ]


def _runtimes(parent: Object) -> list[wire.RelatedRule]:
    """The named runtime, or all of them where the spec selects one."""
    choice = objects.mapping(parent, "spec", "runtime")
    name = objects.text(choice, "name")
    if name:
        return [
            wire.RelatedRule(api_version=API_VERSION, resource="inferenceruntimes", names=(name,))
        ]
    if "selector" in choice:
        return [wire.RelatedRule(api_version=API_VERSION, resource="inferenceruntimes")]
    return []
