"""Metacontroller's rights are what its controllers need: not a verb less, and not one more.

What is needed is derived from the controllers that ship, from what the hooks ask to see and from
the answers that the fixtures expect; the verbs are those that Metacontroller's source uses
(4.17.2: pkg/controller/composite, pkg/controller/decorator, pkg/controller/common).
"""

from __future__ import annotations

import functools
import pathlib
import re
import urllib.parse
from collections import defaultdict
from collections.abc import Iterator

import yaml

from hooks import questions, wire
from tests.pure.hooks import golden
from tests.pure.hooks.world import NOON, SETTINGS, Obj

ROOT = pathlib.Path(__file__).parents[3]

# "deployments.apps", "llmservices.serving.noctaya.io/status", "pods", and by name "ROLE (NAME)".
Rights = dict[str, set[str]]

# By a cache that lists and watches all objects of a kind.
SEE = {"list", "watch"}

WRITTEN_DECORATIONS = {"labels", "annotations", "status"}


def test_metacontroller_may_do_what_its_controllers_need_and_no_more() -> None:
    assert granted() == needed()


def test_the_docs_name_every_right_and_why() -> None:
    told: Rights = {}
    text = (ROOT / "docs" / "install.md").read_text()
    table = text.partition("### Metacontroller's account")[2].partition("\n#")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and "`" in cells[0]:
            for resource in re.findall(r"`([^`]+)`", cells[0]):
                told[resource] = set(cells[1].split(", "))
            assert cells[2], line
    assert told == granted()


def test_every_decorator_has_a_fixture_that_shows_what_it_writes() -> None:
    shown = {case["request"]["object"]["kind"] for case in decorated()}
    for controller in controllers("DecoratorController"):
        for parent in controller["spec"]["resources"]:
            assert kinds()[parent["resource"]] in shown


def granted() -> Rights:
    rights: Rights = defaultdict(set)
    rules = next(read(ROOT / "metacontroller" / "rbac.yaml", "ClusterRole"))["rules"]
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    key = named(group, resource) + (f" ({name})" if name else "")
                    rights[key] |= set(rule["verbs"])
    return dict(rights)


def needed() -> Rights:
    rights: Rights = defaultdict(set)
    # Its own look-ups, for every controller, and its reports.
    rights["namespaces"] |= SEE
    rights["events"] |= {"create", "patch"}
    for controller in controllers("CompositeController"):
        # A Composite's parent is a custom resource whose definition is looked up.
        rights["customresourcedefinitions.apiextensions.k8s.io"] |= SEE
        _composite(controller["spec"], rights)
    for controller in controllers("DecoratorController"):
        _decorator(controller["spec"], rights)
    for controller in [*controllers("CompositeController"), *controllers("DecoratorController")]:
        for resource in asked_for(controller):
            rights[resource] |= SEE
    for role in bound_roles():
        rights[f"clusterroles.rbac.authorization.k8s.io ({role})"].add("bind")
    return dict(rights)


def _composite(spec: Obj, rights: Rights) -> None:
    parent = of(spec["parentResource"])
    # Looked up by name before its status is written and before a child is adopted.
    rights[parent] |= SEE | {"get"}
    rights[f"{parent}/status"].add("update")
    rights[f"{parent}/finalizers"].add("update")
    for child in spec["childResources"]:
        # Looked up and updated when it is adopted or released, whatever its update strategy.
        rights[of(child)] |= SEE | {"get", "create", "update", "delete"}


def _decorator(spec: Obj, rights: Rights) -> None:
    attachments = spec.get("attachments") or []
    for rule in spec["resources"]:
        parent = of(rule)
        rights[parent] |= SEE
        written = decorations(kinds()[rule["resource"]])
        if written:
            # After a status too, since it does not know what else has changed.
            rights[parent].add("update")
        if "status" in written:
            rights[f"{parent}/status"].add("update")
        if attachments:
            rights[f"{parent}/finalizers"].add("update")
    for attachment in attachments:
        rights[of(attachment)] |= SEE | {"create", "delete"}
        if (attachment.get("updateStrategy") or {}).get("method", "OnDelete") != "OnDelete":
            rights[of(attachment)].add("update")


def decorations(kind: str) -> set[str]:
    """What the answers of Decorators write to a parent of this kind."""
    written: set[str] = set()
    for case in decorated():
        if case["request"]["object"]["kind"] == kind:
            written |= WRITTEN_DECORATIONS & set(case["expected"])
    return written


@functools.cache
def decorated() -> list[Obj]:
    """The fixtures of Decorators."""
    return [case for case in cases() if "object" in case["request"]]


@functools.cache
def cases() -> list[Obj]:
    return [
        {
            "request": golden.request(case),
            "expected": yaml.safe_load((golden.FIXTURES / case / "expected.yaml").read_text()),
        }
        for case in golden.cases()
    ]


def asked_for(controller: Obj) -> Iterator[str]:
    """What the controller's customize hook asks to see, for the parents of all fixtures."""
    hook = controller["spec"]["hooks"].get("customize")
    if hook is None:
        return
    path = urllib.parse.urlsplit(hook["webhook"]["url"]).path
    spec = controller["spec"]
    rules = spec["resources"] if "resources" in spec else [spec["parentResource"]]
    wanted = {kinds()[rule["resource"]] for rule in rules}
    for case in cases():
        parent = case["request"].get("object") or case["request"]["parent"]
        if parent["kind"] not in wanted:
            continue
        answer = questions.answer(path, {"parent": parent}, settings=SETTINGS, now=NOON)
        for rule in wire.dump(answer)["relatedResources"]:
            yield of(rule)


def bound_roles() -> set[str]:
    """The ClusterRoles that rendered RoleBindings grant."""
    return {
        child["roleRef"]["name"]
        for case in cases()
        for child in case["expected"].get("children", [])
        if child["kind"] == "RoleBinding"
    }


@functools.cache
def kinds() -> dict[str, str]:
    """The kinds of our own resources, by plural name."""
    definitions = [
        one
        for file in (ROOT / "crds").glob("*.yaml")
        for one in read(file, "CustomResourceDefinition")
    ]
    return {one["spec"]["names"]["plural"]: one["spec"]["names"]["kind"] for one in definitions}


def controllers(kind: str) -> list[Obj]:
    """The controllers of one kind that the kustomization ships."""
    folder = ROOT / "metacontroller"
    shipped = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [one for name in shipped for one in read(folder / name, kind)]


def read(file: pathlib.Path, kind: str) -> Iterator[Obj]:
    for one in yaml.safe_load_all(file.read_text()):
        if one["kind"] == kind:
            yield one


def of(rule: Obj) -> str:
    """The resource of a rule with apiVersion and resource."""
    group, slash, _ = rule["apiVersion"].partition("/")
    return named(group if slash else "", rule["resource"])


def named(group: str, resource: str) -> str:
    plural, slash, part = resource.partition("/")
    return (f"{plural}.{group}" if group else plural) + slash + part
