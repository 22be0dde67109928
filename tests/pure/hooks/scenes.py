"""Moments in the life of a service, and the fixtures' requests that were made from them.

``python -m tests.pure.hooks.scenes`` writes the requests that are missing. What is written stays: a
golden answer to a request that the code under test makes anew would prove little.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

from hooks import questions, recording
from hooks.llmservice import names
from local import recordings
from tests.pure.hooks import golden
from tests.pure.hooks.world import NOON, SETTINGS, Obj, World, merged, service, serving, stamp

VLLM: Obj = {
    "apiVersion": "serving.noctaya.io/v1alpha1",
    "kind": "InferenceRuntime",
    "metadata": {
        "name": "vllm",
        "annotations": {
            "serving.noctaya.io/inference-paths": "/custom/rank",
            "serving.noctaya.io/first-byte-timeout": "15m",
            "serving.noctaya.io/idle-timeout": "90s",
        },
    },
    "spec": {
        "vendor": "nvidia",
        "priority": 10,
        "container": {
            "image": "vllm/vllm-openai:v0.32.0",
            "args": ["--model", "{{ .Model.Path }}", "--served-model-name={{.Service.Name}}"],
            "env": [
                {"name": "SERVICE", "value": "{{.Service.Namespace}}/{{.Service.Name}}"},
                {
                    "name": "HF_TOKEN",
                    "valueFrom": {
                        "secretKeyRef": {"name": "hub", "key": "token", "optional": True}
                    },
                },
            ],
            "port": {"name": "api", "containerPort": 8001},
        },
        "accelerator": {
            "resourceName": "nvidia.com/gpu",
            "nodeSelector": {"gpu": "h100"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "scheduler": {"name": "volcano", "queue": "models"},
        },
        "health": {
            "readiness": {
                "httpGet": {
                    "path": "/health",
                    "port": "api",
                    "httpHeaders": [{"name": "x-probe", "value": "$HOME"}],
                },
                "periodSeconds": 2,
            },
            "startup": {"httpGet": {"path": "/health", "port": 8001}, "failureThreshold": 120},
            "liveness": {"tcpSocket": {"port": "api"}, "initialDelaySeconds": 5},
        },
        "lifecycle": {"preStopDrain": True, "terminationGracePeriodSeconds": 45},
    },
}


ENGINE = "engine"


def at_zero() -> World:
    return serving(World(), replicas=0)


def waiting(reason: str, message: str = "") -> Obj:
    """A container that waits."""
    return {
        "name": ENGINE,
        "image": "engine:1",
        "state": {"waiting": {"reason": reason, "message": message}},
    }


def ended(code: int = 0, reason: str = "Completed", message: str = "") -> Obj:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def scheduled(status: str = "True", message: str = "") -> Obj:
    return {"type": "PodScheduled", "status": status, "message": message}


FAILURES: dict[str, Obj] = {
    "ImagePullFailed": waiting("ErrImagePull", "rpc error: 5f3"),
    "ContainerConfigInvalid": waiting("CreateContainerConfigError", 'secret "token" not found'),
    "OOMKilled": {
        "name": ENGINE,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": ended(137, "OOMKilled"),
    },
    "CrashLoopBackOff": {
        "name": ENGINE,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        "lastState": ended(1, "Error", "boom"),
    },
    "ContainerRestarting": {
        "name": ENGINE,
        "state": {"running": {}},
        "lastState": ended(0),
    },
}


def failing(reason: str) -> World:
    world = at_zero()
    world.scale(1)
    world.add_pod("m-backend-1", conditions=[scheduled()], containerStatuses=[FAILURES[reason]])
    world.settle()
    return world


def starting() -> World:
    world = at_zero()
    world.scale(1)
    world.add_pod("m-backend-1", conditions=[scheduled("False", "no gpu")])
    return world


def full() -> World:
    """Every field of this road set."""
    parent = service(
        model={"source": {"uri": "pvc://weights/llama/8b"}},
        runtime={
            "selector": {"vendor": ["ascend", "nvidia"]},
            "argsOverride": ["--chat-template={{ messages }}"],
        },
        resources={"accelerators": 2, "cpu": "1500m", "memory": "64Gi"},
        scaling={
            "min": 1,
            "max": 4,
            "target": 8,
            "activationTimeout": "90s",
            "scaleDownStabilization": "2m",
            "drainTimeout": "1m30s",
        },
        cache={"strategy": "SharedPVC", "size": "100Gi", "storageClassName": "shared"},
        endpoint={
            "maxQueue": 50,
            "openAICompatible": False,
            "resources": {"requests": {"cpu": "0.1"}, "limits": {"memory": "1024Mi"}},
            "coldStart": {"mode": "reject", "heartbeatInterval": "2.5s"},
        },
        imagePullSecrets=[{"name": "registry"}],
    )
    return World(parent, json.loads(json.dumps(VLLM)))


def settled(world: World) -> World:
    world.settle()
    return world


def mistaken(**spec: object) -> World:
    world = serving(World(service(scaling={"min": 2, "max": 3})), replicas=2)
    world.edit(**spec)
    return world


def without_runtime() -> World:
    world = serving(World())
    world.runtimes.clear()
    return world


def carried() -> World:
    world = failing("CrashLoopBackOff")
    world.scale(0)
    world.pods.clear()
    return world


def loading() -> World:
    world = at_zero()
    world.scale(1)
    world.add_pod(
        "m-backend-1",
        conditions=[scheduled()],
        containerStatuses=[{"name": "engine", "state": {"running": {}}}],
    )
    return world


def taken() -> World:
    world = World()
    world.foreign.append(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "m", "namespace": "ns"}}
    )
    return world


def available() -> World:
    world = settled(World())
    world.gateway_becomes(available=True)
    return world


def annotated() -> World:
    world = available()
    world.run_decorator()
    return world


def marked() -> World:
    world = annotated()
    world.run_composite()
    return world


def scaler_not_found() -> World:
    """KEDA looked too early after an outage that was over 80 s before noon."""
    world = World()
    world.pass_time(-140)
    serving(world)
    world.has_an_outage()
    world.keda_says("False", "ScaledObjectCheckFailed", "no metric specs returned from scalers")
    world.settle()
    return world


def outage() -> World:
    world = serving(World())
    world.gateway_becomes(available=False)
    return world


def over_quota() -> World:
    world = at_zero()
    world.scale(1)
    world.deployment("backend")["status"]["conditions"] = [
        {
            "type": "ReplicaFailure",
            "status": "True",
            "message": 'pods "m-backend-6d4-x2x4z" is forbidden: exceeded quota: gpus',
        }
    ]
    return world


def several_gateways() -> World:
    """Two gateways, the scaler of both, and mutual TLS between it and KEDA."""
    tls = {"serverSecretName": "scaler-server", "authenticationRef": {"name": "keda"}}
    parent = service(scaling={"externalScaler": {"tls": tls}})
    annotations = {names.GATEWAY_REPLICAS: "2", names.DATA_HEARTBEATS: "true"}
    return World(merged(parent, {"metadata": {"annotations": annotations}}))


def with_gateways(world: World, count: int) -> World:
    """Another number of gateways is asked for, and one Pod runs."""
    world.settle()
    world.roll_out("gateway")
    world.parent["metadata"]["annotations"][names.GATEWAY_REPLICAS] = str(count)
    world.settle()
    return world


def to_several() -> World:
    """The scaler of several has just come up."""
    world = with_gateways(serving(World()), 2)
    world.roll_out("scaler")
    return world


def back_to_one() -> World:
    """One gateway is left, which could answer KEDA; another has just ended."""
    world = with_gateways(serving(several_gateways()), 1)
    world.roll_out("gateway")
    world.add_pod("m-gateway-0", component="gateway", phase="Running")
    return world


def certificate_awaited() -> World:
    """The gateway that has one is on its way."""
    world = serving(World())
    world.roll_out("gateway")
    tls = {"serverSecretName": "scaler-server", "authenticationRef": {"name": "keda"}}
    world.edit(scaling={"externalScaler": {"tls": tls}})
    world.run_composite()
    return world


def several_without_scaler() -> World:
    world = several_gateways()
    world.settle()
    world.component_becomes("gateway", available=True)
    world.add_pod(
        "m-scaler-0",
        component="scaler",
        phase="Pending",
        containerStatuses=[waiting("ContainerCreating") | {"name": "scaler"}],
    )
    return settled(world)


HUB: Obj = {"model": {"source": {"uri": "hf://org/name@v1"}}}
MODELSCOPE: Obj = {"model": {"source": {"uri": "modelscope://org/name"}}}
ARTIFACT: Obj = {
    "model": {
        "source": {
            "uri": f"oci://registry.example:5000/models/small@sha256:{'0a' * 32}",
            "secretRef": {"name": "pull"},
        }
    }
}
ON_NODE: Obj = {"strategy": "HostPath", "prewarm": True}
LOCAL: Obj = {"strategy": "NodeLocalPVC", "prewarm": True}
SHARED: Obj = {"strategy": "SharedPVC", "prewarm": True}


def prewarming(source: Obj, cache: Obj = LOCAL) -> World:
    """The Job runs, and the gateway is there."""
    parent = service(
        **source,
        cache=cache,
        runtime={"name": "vllm"},
        imagePullSecrets=[{"name": "registry"}],
    )
    world = World(parent, json.loads(json.dumps(VLLM)))
    world.settle()
    world.gateway_becomes(available=True)
    world.settle()
    return world


def prewarmed(source: Obj, cache: Obj = LOCAL, *, ready: int = 0) -> World:
    """Staged, handed over to KEDA, and so many replicas ready."""
    world = prewarming(source, cache)
    world.job_ends(complete=True)
    world.settle()
    world.keda_says("True", "ScaledObjectReady", "ScaledObject is defined correctly")
    world.scale(ready, ready=ready)
    world.settle()
    return world


def prewarm_failed() -> World:
    world = prewarming(HUB)
    said = "not found: hf://org/name@v1 is not there: check the name and the revision"
    ended = {"terminated": {"exitCode": 11, "message": said, "finishedAt": "2026-06-01T12:00:00Z"}}
    world.add_prewarm_pod(
        "m-prewarm-x", "Failed", containerStatuses=[{"name": "fetcher", "state": ended}]
    )
    world.job_ends(complete=False)
    return world


def staging_on_node(**stager: object) -> World:
    """A replica has a node, and its first container is in this state."""
    parent = service(**HUB, cache=ON_NODE, runtime={"name": "vllm"})
    world = serving(World(parent, json.loads(json.dumps(VLLM))), replicas=0)
    world.scale(1)
    status = {"name": "fetcher", "image": "fetcher:1", **stager}
    world.add_pod("m-backend-1", conditions=[scheduled()], initContainerStatuses=[status])
    return world


def failed_on_node() -> World:
    said = "no space: 40.2 GB are needed and 12.5 GB are free: make room"
    return staging_on_node(
        state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended(14, "Error", said)
    )


def job_deleted() -> World:
    """While it serves; a new one is on the way."""
    world = prewarmed(HUB, ready=1)
    world.job_is_deleted()
    return world


def cache_replaced() -> World:
    world = prewarmed(HUB)
    world.claim_is_replaced()
    return world


EARLIER = "2026-06-01T11:00:00Z"


def without_a_gateway() -> World:
    """For an hour."""
    world = settled(World())
    world.gateway_becomes(available=False)
    for condition in world.deployment("gateway")["status"]["conditions"]:
        condition["lastTransitionTime"] = EARLIER
    return world


def unschedulable(claim_phase: str, since: str, replicas: int) -> World:
    """So many replicas on one claim, of which no node takes the first."""
    world = serving(World(service(cache={}, scaling={"max": replicas})), replicas=0)
    world.owned["PersistentVolumeClaim.v1"]["ns/m-cache"]["status"] = {"phase": claim_phase}
    world.scale(replicas)
    pod = world.add_pod("m-backend-1", conditions=[scheduled("False", "0/3 nodes are available")])
    pod["metadata"]["creationTimestamp"] = since
    return world


def scheduled_now() -> World:
    world = at_zero()
    world.scale(1)
    world.add_pod("m-backend-1", conditions=[scheduled()])
    return world


def too_slow() -> World:
    world = loading()
    world.pods["ns/m-backend-1"]["metadata"]["creationTimestamp"] = EARLIER
    return world


def ambiguous() -> World:
    world = World(service(runtime={"selector": {"vendor": ["nvidia"]}}))
    world.runtimes.append(merged(world.runtimes[0], {"metadata": {"name": "other"}}))
    return world


def broken_runtime() -> World:
    world = serving(World())
    world.runtimes[0]["spec"]["container"]["args"] = ["{{ .Model.Name }}"]
    return world


def name_too_long() -> World:
    world = World()
    world.parent["metadata"]["name"] = "m" * 55
    return world


def namesake_going() -> World:
    """An earlier service of this name was deleted, and its endpoint is not gone yet."""
    world = taken()
    world.foreign[0]["metadata"] |= {
        "deletionTimestamp": EARLIER,
        "ownerReferences": [
            {"kind": "LLMService", "name": "m", "uid": "uid-before", "controller": True}
        ],
    }
    return world


def mark_removed() -> World:
    world = serving(World(), replicas=2)
    del world.deployment("backend")["metadata"]["annotations"][names.REPLICAS_OWNER]
    return world


def keda_complains() -> World:
    world = at_zero()
    world.keda_says("False", "ScaledObjectCheckFailed", "the scaler does not answer")
    world.settle()
    return world


def scaled_object_taken() -> World:
    world = available()
    world.foreign.append(
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": {"name": "m", "namespace": "ns"},
        }
    )
    return world


def without_its_minimum() -> World:
    world = available()
    world.edit(scaling={"min": 2, "max": 2})
    return world


def misspelt_annotation() -> World:
    """Of several gateways, where the edit that was meant for their number gave it another name."""
    world = serving(several_gateways())
    annotations = world.parent["metadata"]["annotations"]
    annotations["serving.noctaya.io/gateway-replica"] = annotations.pop(names.GATEWAY_REPLICAS)
    world.settle()
    return world


COMPOSITE: dict[str, Callable[[], World]] = {
    "ambiguous": ambiguous,
    "broken-runtime": broken_runtime,
    "cache-pending": lambda: unschedulable("Pending", EARLIER, 1),
    "claim-as-source": lambda: World(service(model={"source": {"uri": "pvc://weights/llama"}})),
    "cold-start-budget": lambda: World(
        service(scaling={"activationTimeout": "1m", "scaleDownStabilization": "0s"})
    ),
    "created-with-minimum": lambda: World(service(scaling={"min": 2, "max": 3})),
    "gateway-not-ready": without_a_gateway,
    "keda-complains": keda_complains,
    "mark-removed": mark_removed,
    "name-too-long": name_too_long,
    "namesake-going": namesake_going,
    "no-runtime": lambda: World(service(runtime={"name": "missing"})),
    "not-implemented": lambda: mistaken(cache={"strategy": "BakedImage"}),
    "revision-without-staging": lambda: mistaken(model={"source": {"uri": "hf://org/name@v1"}}),
    "on-node-artifact": lambda: World(
        service(**ARTIFACT, cache={"strategy": "HostPath"}, runtime={"name": "vllm"}),
        json.loads(json.dumps(VLLM)),
    ),
    "on-node-failed": failed_on_node,
    "on-node-modelscope": lambda: World(
        service(**MODELSCOPE, cache={"strategy": "HostPath"}, runtime={"name": "vllm"}),
        json.loads(json.dumps(VLLM)),
    ),
    "on-node-staging": lambda: staging_on_node(state={"running": {}}),
    "scheduled": scheduled_now,
    "too-slow": too_slow,
    "unschedulable": starting,
    "unschedulable-on-one-node": lambda: unschedulable("Bound", stamp(NOON), 2),
    "without-keda": available,
    "activating": lambda: scaled(at_zero(), 1),
    "at-zero": at_zero,
    "claim-kept": lambda: edited(serving(full()), cache={"strategy": "None"}),
    "claim-of-another-size": lambda: edited(
        serving(full()),
        cache={"strategy": "SharedPVC", "size": "1Ti", "storageClassName": "shared"},
    ),
    "created": World,
    "created-in-full": full,
    "created-with-key": lambda: World(
        service(endpoint={"authentication": {"secretRef": {"name": "clients", "key": "API_KEY"}}})
    ),
    "created-with-cache": lambda: World(service(cache={})),
    "created-with-mistake": lambda: World(service(scaling={"minn": 1})),
    "failure-carried": carried,
    "gateway-starting": lambda: settled(World()),
    "handed-over": annotated,
    "kedas-number-echoed": lambda: scaled(serving(World()), 3),
    "loading": loading,
    "misspelt-annotation": misspelt_annotation,
    "mistake": lambda: mistaken(runtime={"name": "echo", "argOverride": ["--x"]}),
    "name-taken": taken,
    "over-quota": over_quota,
    "prewarm-another-source": lambda: edited(
        prewarmed(HUB, ready=1), model={"source": {"uri": "hf://org/name@v2"}}
    ),
    "prewarm-cache-replaced": cache_replaced,
    "prewarm-failed": prewarm_failed,
    "prewarm-job-deleted": job_deleted,
    "prewarmed": lambda: prewarmed(HUB),
    "prewarmed-artifact": lambda: prewarmed(ARTIFACT, {"strategy": "NodeLocalPVC"}),
    "prewarmed-modelscope": lambda: prewarmed(MODELSCOPE),
    "prewarmed-shared": lambda: prewarmed(HUB, SHARED, ready=1),
    "prewarming": lambda: prewarming(HUB),
    "prewarming-artifact": lambda: prewarming(ARTIFACT, {"strategy": "NodeLocalPVC"}),
    "runtime-deleted": without_runtime,
    "serving": lambda: serving(World()),
    "several-gateways": lambda: serving(several_gateways()),
    "gateways-to-several": to_several,
    "gateways-back-to-one": back_to_one,
    "several-gateways-without-scaler": several_without_scaler,
    "serving-in-full": lambda: serving(full(), replicas=2),
    **{f"failed-{reason}": functools.partial(failing, reason) for reason in FAILURES},
}

DECORATOR: dict[str, Callable[[], World]] = {
    "keda-edited": lambda: edited(serving(World()), scaling={"max": 4, "target": 2}),
    "keda-name-taken": scaled_object_taken,
    "keda-waits-for-minimum": without_its_minimum,
    "keda-annotation-first": available,
    "keda-attach": marked,
    "keda-gateway-outage": outage,
    "keda-scaler-not-found": scaler_not_found,
    "keda-cache-replaced": cache_replaced,
    "keda-waits-for-weights": lambda: prewarming(HUB),
    "keda-mistake": lambda: mistaken(typo=1),
    "keda-serving": lambda: serving(World()),
    "keda-certificate-awaited": certificate_awaited,
    "keda-several-gateways": lambda: serving(several_gateways()),
    "keda-waits": lambda: settled(World()),
    "keda-waits-for-composite": annotated,
}


def runtime_request(spec: Obj, *others: str, **annotations: str) -> Obj:
    """What the Decorator of InferenceRuntimes is asked about `vllm`, whose spec is overlaid."""
    made = merged(json.loads(json.dumps(VLLM)), {"spec": spec})
    made["metadata"] |= {"uid": "uid-of-vllm", "generation": 1}
    made["metadata"]["annotations"] |= annotations
    known = {name: merged(made, {"metadata": {"name": name}}) for name in ("vllm", *others)}
    return {"object": made, "attachments": {}, "related": {names.RUNTIMES: known}}


RUNTIME: dict[str, Callable[[], Obj]] = {
    "runtime-accepted": lambda: runtime_request({}),
    "runtime-ambiguous": lambda: runtime_request({}, "other"),
    "runtime-annotation": lambda: runtime_request({}, **{names.IDLE_TIMEOUT: "soon"}),
    "runtime-misspelt-annotation": lambda: runtime_request(
        {}, **{"serving.noctaya.io/accelerators": "none", names.DATA_HEARTBEATS: "true"}
    ),
    "runtime-sharing": lambda: runtime_request({"accelerator": {"sharing": {"supported": True}}}),
    "runtime-template": lambda: runtime_request({"container": {"args": ["{{ .Model.Name }}"]}}),
}


def scaled(world: World, replicas: int) -> World:
    world.scale(replicas)
    return world


def edited(world: World, **spec: object) -> World:
    world.edit(**spec)
    return world


def main() -> None:
    requests = {name: scene().composite_request() for name, scene in COMPOSITE.items()}
    requests |= {name: scene().decorator_request() for name, scene in DECORATOR.items()}
    requests |= {name: scene() for name, scene in RUNTIME.items()}
    for name, body in requests.items():
        path = golden.FIXTURES / name / "request.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_json(body))
    # What the requests do not tell themselves, for `noctaya test` and `noctaya replay`.
    told = recording.Circumstances(path=questions.COMPOSITE_SYNC, at=NOON, settings=SETTINGS)
    written = recording.written(told)
    del written["path"]
    (golden.FIXTURES / recordings.SHARED).write_text(_json(written))


def _json(value: Obj) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    main()
