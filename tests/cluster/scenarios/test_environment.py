"""An engine's environment after an edit: in the runtime's order, which Metacontroller's is not."""

from tests.cluster import cluster as running
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import Object, merged
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint, is_ready


def test_a_variable_that_is_added_before_one_that_refers_to_it_is_filled_in(
    installed: running.Cluster, start: Start
) -> None:
    installed.apply(_runtime({"GREETING": "hello"}))
    service = start("ordered", "ordered", replicas=(1, 1))
    service.wait_ready()
    since = installed.audit.mark()
    after = {"WHOM": "world", "GREETING": "hello $(WHOM)"}
    installed.apply(_runtime(after))

    def replaced() -> bool:
        names = [list(_variables(pod)) for pod in service.pods() if is_ready(pod)]
        assert names == [list(after)], names
        return True

    installed.wait("an engine has both variables, in this order", replaced)
    assert _said(service, "$GREETING") == "hello world"
    writes = service.writes(since, resource="replicasets")
    made = {event.name for event in writes if event.verb == "create"}
    assert len(made) == 1, "one rollout"
    assert "paused" not in service.backend()["spec"]
    service.wait_ready()


def _runtime(variables: dict[str, str]) -> Object:
    env = builders.environment(variables)
    made: Object = merged(builders.runtime("ordered"), {"spec": {"container": {"env": env}}})
    return made


def _variables(pod: Object) -> dict[str, str]:
    """Those of the engine that the runtime declares."""
    (engine,) = pod["spec"]["containers"]
    declared = ("WHOM", "GREETING")
    return {v["name"]: v["value"] for v in engine["env"] if v["name"] in declared}


def _said(service: Endpoint, words: str) -> str:
    """What a shell in the engine's container makes of these words."""
    backend = f"deployment/{service.name}-backend"
    command = ("sh", "-c", f'printf "%s" "{words}"')
    return service.cluster.kubectl("exec", f"-n={service.namespace}", backend, "--", *command)
