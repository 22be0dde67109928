"""Every reason that a condition can give, with a sentence of help.

The list is closed: a condition's reason is one of these or, for AutoscalingReady, KEDA's own.
"""

import enum


class Reason(enum.StrEnum):
    """A condition's reason; `help` says what it means and what to do about it."""

    help: str

    def __new__(cls, value: str, help_: str = "") -> "Reason":
        member = str.__new__(cls, value)
        member._value_ = value
        member.help = help_
        return member

    # --- The spec does not resolve: nothing is changed until it does.
    NAME_INVALID = (
        "NameInvalid",
        "The service's name cannot be used for its children; create it again under the name that"
        " the message describes.",
    )
    SPEC_INVALID = (
        "SpecInvalid",
        "A field of the spec, or an annotation, cannot be used as it is; the message names it."
        " Everything that runs is left as it was.",
    )
    NOT_IMPLEMENTED = (
        "NotImplemented",
        "The spec sets a field that this version does not act on; remove it. Everything that runs"
        " is left as it was.",
    )
    RUNTIME_NOT_FOUND = (
        "RuntimeNotFound",
        "No InferenceRuntime fits the spec: kubectl get inferenceruntimes.",
    )
    RUNTIME_INVALID = (
        "RuntimeInvalid",
        "The InferenceRuntime has a field or an annotation that cannot be used as it is; the"
        " message names it.",
    )
    RUNTIME_AMBIGUOUS = (
        "RuntimeAmbiguous",
        "Several InferenceRuntimes have the highest priority; give one a higher priority or name"
        " it in spec.runtime.name.",
    )
    CACHE_SPEC_CHANGED = (
        "CacheSpecChanged",
        "The cache claim is made once and the spec now asks for another one; change the spec back,"
        " or delete the claim and the weights on it.",
    )
    PREWARM_SPEC_CHANGED = (
        "PrewarmSpecChanged",
        "The Job that stages the weights is made once and the spec now asks for other weights;"
        " change the spec back, or delete the Job to have them staged.",
    )
    FETCHER_MISSING = (
        "FetcherMissing",
        "The weights are to be staged and the hooks do not know the fetcher's image: set"
        " NOCTAYA_FETCHER_IMAGE on them.",
    )
    HOST_PATH_DISABLED = (
        "HostPathDisabled",
        "The spec keeps weights in a folder of the nodes, and no administrator has said in which:"
        " set NOCTAYA_HOST_PATH_ROOT on the hooks, or choose another spec.cache.strategy.",
    )

    # --- Progress.
    GATEWAY_STARTING = (
        "GatewayStarting",
        "No gateway replica is available yet, so the endpoint does not answer.",
    )
    SCALER_STARTING = (
        "ScalerStarting",
        "The scaler of several gateways is not available yet, so nothing wakes the service from"
        " zero: kubectl describe replicasets,pods -l app.kubernetes.io/component=scaler.",
    )
    ACTIVATING = ("Activating", "A replica is wanted and its Pod is on the way.")
    SCHEDULING_DELAYED = (
        "SchedulingDelayed",
        "A replica waits for a node with the accelerators, CPU and memory that it asks for.",
    )
    STARTING = ("Starting", "A replica has a node; its image is pulled and its volumes mounted.")
    PREWARMING = (
        "Prewarming",
        "The weights are being staged; no accelerator is held until they are there.",
    )
    STAGING_ON_NODE = (
        "StagingOnNode",
        "A replica's node downloads the weights first. Unlike a Job's, this download holds the"
        " accelerator; later starts on that node find them there.",
    )
    MODEL_LOADING = ("ModelLoading", "The engine runs and loads the model.")
    AUTOSCALER_MISSING = (
        "AutoscalerMissing",
        "KEDA has said nothing about this service, so nothing wakes it from zero. Where KEDA was"
        " installed after Noctaya, make Metacontroller look again: kubectl annotate --overwrite"
        " decoratorcontroller llmservice-autoscaling serving.noctaya.io/poke=$(date +%s).",
    )

    # --- All well.
    ACCEPTED = ("Accepted", "Services can run on the InferenceRuntime.")
    AVAILABLE = ("Available", "At least one replica is ready.")
    SCALED_TO_ZERO = (
        "ScaledToZero",
        "No replica runs and no accelerator is held; a request starts one.",
    )
    INACTIVE = ("Inactive", "Nothing runs, so nothing can be degraded.")
    PROGRESSING = ("Progressing", "No failure is seen.")
    SUFFICIENT = (
        "Sufficient",
        "Demand outlives the longest start that the runtime allows.",
    )
    STARTUP_OUTLASTS_DEMAND = (
        "StartupOutlastsDemand",
        "The runtime allows a longer start than demand is kept: a slow start may be taken away"
        " before it is over. Raise scaling.activationTimeout or scaling.scaleDownStabilization, or"
        " lower the startup probe's failureThreshold.",
    )

    # --- Failures.
    CHILD_NAME_TAKEN = (
        "ChildNameTaken",
        "An object that is not ours has the name of a child and is left alone; delete or rename"
        " it, or give the service another name.",
    )
    GATEWAY_NOT_READY = (
        "GatewayNotReady",
        "No gateway replica became available in two minutes: kubectl describe replicasets,pods -l"
        " app.kubernetes.io/component=gateway.",
    )
    PODS_FORBIDDEN = (
        "PodsForbidden",
        "The cluster refuses the Pods: a quota, a limit range or Pod Security.",
    )
    CONTAINER_CONFIG_INVALID = (
        "ContainerConfigInvalid",
        "The container cannot be created, most often for a missing Secret, ConfigMap or key.",
    )
    IMAGE_PULL_FAILED = (
        "ImagePullFailed",
        "The image cannot be pulled: check its name, the pull secrets and the registry.",
    )
    OOM_KILLED = (
        "OOMKilled",
        "The container used more memory than its limit; raise spec.resources.memory.",
    )
    CRASH_LOOP_BACK_OFF = (
        "CrashLoopBackOff",
        "The engine ends again and again: kubectl logs -n NAMESPACE deployment/NAME-backend"
        " --previous shows its last words.",
    )
    CONTAINER_RESTARTING = (
        "ContainerRestarting",
        "The engine ended and starts again. An engine that exits with code 0 has failed as well.",
    )
    CACHE_PENDING = (
        "CachePending",
        "The cache claim is not bound, so no replica can start: kubectl describe pvc.",
    )
    CACHE_REPLACED = (
        "CacheReplaced",
        "The weights went with the claim that they were staged on. No replica is started until"
        " they are staged again, which the deletion of the Job brings about.",
    )
    PREWARM_FAILED = (
        "PrewarmFailed",
        "The weights could not be staged. Mend what the message names; a Job tries again once it"
        " is deleted, a replica that stages on its node by itself.",
    )
    PROGRESS_DEADLINE_EXCEEDED = (
        "ProgressDeadlineExceeded",
        "A replica is not ready within the startup budget and the time allowed for scheduling and"
        " image pull.",
    )
