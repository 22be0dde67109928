"""What `kubectl apply -k` would apply: the plain install, and with each component."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from tests.cluster import build
from tests.pure.hooks.world import Obj

pytestmark = pytest.mark.process

ROOT = pathlib.Path(__file__).parents[3]
COMPONENTS = ("tls", "network-policy")


def kubectl() -> str:
    """The rig's own, or else the machine's."""
    built = build.program("kubectl")
    found = str(built) if built.exists() else shutil.which("kubectl")
    if found is None:
        pytest.skip("no kubectl: `python -m tests.cluster build` makes one")
    return found


class Built:
    """The objects of one overlay, with fields of a kustomization beside those that it needs."""

    def __init__(self, folder: pathlib.Path, *components: str, more: Obj | None = None) -> None:
        here = pathlib.Path(os.path.relpath(ROOT / "manifests", folder))
        overlay = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            **(more or {}),
            "resources": [str(here)],
            "components": [str(here / "components" / name) for name in components],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        done = subprocess.run(
            [kubectl(), "kustomize", str(folder)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        self.objects: list[Obj] = list(yaml.safe_load_all(done.stdout))

    def of(self, kind: str) -> list[Obj]:
        return [one for one in self.objects if one["kind"] == kind]

    def one(self, kind: str, name: str) -> Obj:
        (found,) = (one for one in self.of(kind) if one["metadata"]["name"] == name)
        return found

    def pod(self) -> Obj:
        found: Obj = self.one("Deployment", "noctaya-hooks")["spec"]["template"]["spec"]
        return found

    def controllers(self) -> list[Obj]:
        return [*self.of("CompositeController"), *self.of("DecoratorController")]

    def names(self) -> set[tuple[str, str]]:
        return {(one["kind"], one["metadata"]["name"]) for one in self.objects}


def urls(controller: Obj) -> list[str]:
    return [hook["webhook"]["url"] for hook in controller["spec"]["hooks"].values()]


def test_the_plain_install_speaks_plain_http(tmp_path: pathlib.Path) -> None:
    built = Built(tmp_path)
    shipped = [file for file in (ROOT / "metacontroller").glob("*.yaml") if "rbac" not in file.name]
    assert len(built.controllers()) == len(shipped) - 1  # The kustomization itself.
    for controller in built.controllers():
        for url in urls(controller):
            assert url.startswith("http://noctaya-hooks.noctaya-system.svc/")
    assert not built.of("NetworkPolicy")
    assert not any("secrets" in rule["resources"] for rule in rules(built))


def test_with_tls_every_hook_is_called_by_https_and_with_a_token(tmp_path: pathlib.Path) -> None:
    built = Built(tmp_path, "tls")
    assert len(built.controllers()) == len(Built(tmp_path).controllers())
    for controller in built.controllers():
        for url in urls(controller):
            assert url.startswith("https://noctaya-hooks.noctaya-system.svc/")
        (endpoint,) = controller["spec"]["endpointConfigs"]
        assert endpoint["host"] == "noctaya-hooks.noctaya-system.svc"
        assert {"host", "caBundle", "authorization"} == set(endpoint)
    (port,) = built.one("Service", "noctaya-hooks")["spec"]["ports"]
    (container,) = built.pod()["containers"]
    assert port["port"] == 443
    assert port["targetPort"] in {one["name"] for one in container["ports"]}
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
        assert container[probe]["httpGet"]["path"]


def test_with_tls_hooks_and_metacontroller_read_the_same_secrets(tmp_path: pathlib.Path) -> None:
    built = Built(tmp_path, "tls")
    mounted = {
        (volume["secret"]["secretName"], item["key"])
        for volume in built.pod()["volumes"]
        for item in volume["secret"]["items"]
    }
    (endpoint,) = built.controllers()[0]["spec"]["endpointConfigs"]
    token, authority = endpoint["authorization"]["secretRef"], endpoint["caBundle"]["secretRef"]
    assert (token["name"], token["key"]) in mounted
    assert (authority["name"], "tls.crt") in mounted
    namespace = built.one("Deployment", "noctaya-hooks")["metadata"]["namespace"]
    assert token["namespace"] == authority["namespace"] == namespace
    assert [r["verbs"] for r in rules(built) if "secrets" in r["resources"]] == [["list", "watch"]]


def test_the_policy_lets_metacontroller_in_and_nothing_out(tmp_path: pathlib.Path) -> None:
    built = Built(tmp_path, "network-policy")
    policy = built.one("NetworkPolicy", "noctaya-hooks")
    hooks = built.one("Deployment", "noctaya-hooks")
    assert policy["metadata"]["namespace"] == hooks["metadata"]["namespace"]
    labels = hooks["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert not policy["spec"].get("egress")
    (ingress,) = policy["spec"]["ingress"]
    (container,) = built.pod()["containers"]
    assert [port["port"] for port in ingress["ports"]] == [
        port["containerPort"] for port in container["ports"]
    ]
    (source,) = ingress["from"]
    account = built.one("ClusterRoleBinding", "noctaya-metacontroller")["subjects"][0]
    assert source["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": account["namespace"]
    }


def test_components_add_and_take_nothing_away(tmp_path: pathlib.Path) -> None:
    plain, full = Built(tmp_path), Built(tmp_path, *COMPONENTS)
    assert plain.names() < full.names()
    (before,), (after,) = plain.pod()["containers"], full.pod()["containers"]
    for field in ("image", "ports", "resources", "securityContext"):
        assert after[field] == before[field]
    assert all(variable in after["env"] for variable in before["env"])


@pytest.mark.parametrize("components", [(), COMPONENTS], ids=["plain", "full"])
def test_the_patches_in_the_docs_add_what_they_say_and_take_nothing_away(
    tmp_path: pathlib.Path, components: tuple[str, ...]
) -> None:
    before = Built(tmp_path, *components).pod()
    names, recording = (documented(page) for page in ("install.md", "tools.md"))
    patches = names["patches"] + recording["patches"]
    after = Built(tmp_path, *components, more={**names, "patches": patches}).pod()
    (container,), (untouched,) = after["containers"], before["containers"]
    assert container["image"] == "REGISTRY/noctaya/hooks:0.1.0"
    values = {one["name"]: one["value"] for one in container["env"]}
    assert values.pop("NOCTAYA_GATEWAY_IMAGE") == "REGISTRY/noctaya/gateway:0.1.0"
    assert values.pop("NOCTAYA_FETCHER_IMAGE") == "REGISTRY/noctaya/fetcher:0.1.0"
    assert values.pop("NOCTAYA_RECORD_DIR") == "/recorded"
    assert values.items() <= {one["name"]: one["value"] for one in untouched["env"]}.items()
    for added, kept in ((container, untouched), (after, before)):
        for field in ("volumes", "volumeMounts"):
            assert all(one in added.get(field, []) for one in kept.get(field, []))


def documented(page: str) -> Obj:
    """The first patches of a page's kustomizations."""
    text = (ROOT / "docs" / page).read_text()
    blocks = [block.partition("```")[0] for block in text.split("```yaml\n")[1:]]
    return next(found for block in blocks if "patches" in (found := yaml.safe_load(block)))


def test_every_component_is_tested_here() -> None:
    shipped = {path.name for path in (ROOT / "manifests" / "components").iterdir()}
    assert shipped == set(COMPONENTS)


def rules(built: Built) -> list[Obj]:
    return [rule for role in built.of("ClusterRole") for rule in role["rules"]]


def test_the_kustomizations_of_the_page_build_in_the_folder_that_holds_the_clone(
    tmp_path: pathlib.Path,
) -> None:
    for name in ("manifests", "crds", "metacontroller"):
        shutil.copytree(ROOT / name, tmp_path / "noctaya" / name)
    page = (ROOT / "docs" / "install.md").read_text()
    shown = [
        text for text in re.findall(r"```yaml\n(.*?)```", page, re.S) if "\nresources:" in text
    ]
    assert len(shown) == 2
    for text in shown:
        (tmp_path / "kustomization.yaml").write_text(text)
        done = subprocess.run(
            [kubectl(), "kustomize", str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "kind: Deployment" in done.stdout
        if "images:" in text:
            assert "image: REGISTRY/noctaya/hooks:0.1.0" in done.stdout
            assert "value: REGISTRY/noctaya/gateway:0.1.0" in done.stdout
