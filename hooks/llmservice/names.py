"""Every name that is made from a service's name, and every label and annotation that we set.

A service has at most 54 characters (see `hooks.api.llmservice.NAME_RULES`) and a suffix at most 9,
so that each name fits the 63 that a label value or a Service allows; no name needs a hash.
"""

from typing import NewType

from hooks.k8s.objects import GroupKey, Identity, ObjectKey

# The name of an LLMService. The names of its children are plain strings made from it.
ServiceName = NewType("ServiceName", str)

LABEL_SERVICE = "serving.noctaya.io/service"
LABEL_COMPONENT = "app.kubernetes.io/component"

# On an LLMService.
GATEWAY_REPLICAS = "serving.noctaya.io/gateway-replicas"
DATA_HEARTBEATS = "serving.noctaya.io/data-heartbeats"
AUTOSCALING = "serving.noctaya.io/autoscaling"
# On an InferenceRuntime.
ACCELERATOR = "serving.noctaya.io/accelerator"
INFERENCE_PATHS = "serving.noctaya.io/inference-paths"
FIRST_BYTE_TIMEOUT = "serving.noctaya.io/first-byte-timeout"
IDLE_TIMEOUT = "serving.noctaya.io/idle-timeout"
LOCAL_COMMAND = "serving.noctaya.io/local-command"
# On the backend's Deployment, Pod template and Service, and on create-once children.
REPLICAS_OWNER = "serving.noctaya.io/replicas-owner"
KEDA = "keda"
TEMPLATE_HASH = "serving.noctaya.io/template-hash"
METRIC_NAMES = "serving.noctaya.io/metric-names"
SPEC_HASH = "serving.noctaya.io/spec-hash"
# On the Job: the uid of the claim that it stages on. On the backend's Deployment: the uid of the
# claim that the weights which its replicas read were staged on; `NO_CLAIM` until there is one.
CLAIM_UID = "serving.noctaya.io/claim-uid"
STAGED_ON = "serving.noctaya.io/staged-on"
NO_CLAIM = "none"
# On the backend's Pod template: what its weights are staged from.
SOURCE = "serving.noctaya.io/source"
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"

ENGINE_CONTAINER = "engine"
GATEWAY_CONTAINER = "gateway"
SCALER_CONTAINER = "scaler"
FETCHER_CONTAINER = "fetcher"
# Installed with Noctaya: reads EndpointSlices.
GATEWAY_CLUSTER_ROLE = "noctaya-gateway"

DEPLOYMENTS = GroupKey("Deployment.apps/v1")
SERVICES = GroupKey("Service.v1")
CLAIMS = GroupKey("PersistentVolumeClaim.v1")
JOBS = GroupKey("Job.batch/v1")
DISRUPTION_BUDGETS = GroupKey("PodDisruptionBudget.policy/v1")
PODS = GroupKey("Pod.v1")
RUNTIMES = GroupKey("InferenceRuntime.serving.noctaya.io/v1alpha1")


def backend(service: ServiceName) -> str:
    """The backend's Deployment and its headless Service."""
    return f"{service}-backend"


def child(group: GroupKey, namespace: str, name: str) -> Identity:
    """What a child of that name is found by."""
    return Identity(group, ObjectKey(f"{namespace}/{name}"))


def gateway(service: ServiceName) -> str:
    """The gateway's Deployment, ServiceAccount, RoleBinding and PodDisruptionBudget."""
    return f"{service}-gateway"


def endpoint(service: ServiceName) -> str:
    """The Service that clients use."""
    return service


def scaler(service: ServiceName) -> str:
    """The Service that KEDA uses, and the aggregate scaler's Deployment where there is one."""
    return f"{service}-scaler"


def cache(service: ServiceName) -> str:
    """The claim that holds downloaded weights."""
    return f"{service}-cache"


def prewarm(service: ServiceName) -> str:
    """The Job that stages weights on the claim."""
    return f"{service}-prewarm"


def node_folder(root: str, namespace: str, service: ServiceName) -> str:
    """The service's own folder below the root of HostPath caches, on every node.

    Neither name can hold a slash or be two dots, so that no two services meet in one folder.
    """
    return f"{root}/{namespace}/{service}"


def scaled_object(service: ServiceName) -> str:
    """KEDA's ScaledObject."""
    return service


def endpoint_url(service: ServiceName, namespace: str) -> str:
    """What clients put into their ``base_url``, inside the cluster."""
    return f"http://{endpoint(service)}.{namespace}.svc/v1"


def selector(service: ServiceName, component: str) -> dict[str, str]:
    """The labels that Services and Deployments select Pods by; they never change."""
    return {LABEL_COMPONENT: component, LABEL_SERVICE: service}


def labels(service: ServiceName, component: str) -> dict[str, str]:
    """The labels of a child, and of its Pods."""
    return {
        "app.kubernetes.io/managed-by": "noctaya",
        "app.kubernetes.io/name": "noctaya",
        **selector(service, component),
    }
