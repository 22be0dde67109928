"""Customize hooks: which other objects a parent's sync wants to see, and to hear of."""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable

from tests.cluster.standin import hook, objects, responses
from tests.cluster.standin.informer import Handler, Informer, Informers
from tests.cluster.standin.objects import Key, Obj
from tests.cluster.standin.responses import RelatedRule

# Metacontroller keeps an answer this long; what it depends on must be in uid and generation.
_KEEP_SECONDS = 20 * 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Answer:
    parent: Key
    generation: int
    until: float
    rules: list[RelatedRule]


class Related:
    """One controller's related objects. ``wake`` is called with a parent to sync again."""

    def __init__(
        self,
        informers: Informers,
        customize: hook.Hook | None,
        controller: Obj,
        wake: Callable[[Key], None],
    ) -> None:
        self._informers = informers
        self._customize = customize
        self._controller = controller
        self._wake = wake
        self._lock = threading.Lock()
        self._answers: dict[str, _Answer] = {}
        self._watched: dict[str, tuple[Informer, Handler]] = {}

    def objects_for(self, parent: Obj) -> dict[str, dict[str, Obj]]:
        """The ``related`` field of the parent's sync request.

        Raises an `ApiError` for a kind that the server lacks, and what a hook call raises.
        """
        found: list[Obj] = []
        kinds = []
        for rule in self._rules(parent):
            informer = self._informers.get(rule.api_version, rule.resource)
            self._watch(informer)
            kinds.append(informer.resource.group_key)
            found += [obj for obj in informer.all() if selects(rule, obj)]
        return objects.uniform_map(kinds, found)

    def forget(self, parent_uid: str) -> None:
        """Drop what is kept for a parent that is gone."""
        with self._lock:
            self._answers.pop(parent_uid, None)

    def close(self) -> None:
        """Stop hearing of related objects."""
        with self._lock:
            for informer, handler in self._watched.values():
                informer.unsubscribe(handler)

    def _rules(self, parent: Obj) -> list[RelatedRule]:
        if self._customize is None:
            return []
        uid, generation = objects.uid_of(parent), parent["metadata"]["generation"]
        with self._lock:
            kept = self._answers.get(uid)
        if kept and kept.generation == generation and time.monotonic() < kept.until:
            return kept.rules
        request = {"controller": self._controller, "parent": parent}
        rules = responses.parse_customize(self._customize.call(request))
        answer = _Answer(
            parent=objects.key_of(parent),
            generation=generation,
            until=time.monotonic() + _KEEP_SECONDS,
            rules=rules,
        )
        with self._lock:
            self._answers[uid] = answer
        return rules

    def _watch(self, informer: Informer) -> None:
        kind = informer.resource.group_key
        with self._lock:
            if kind not in self._watched:
                handler = functools.partial(self._changed, informer)
                self._watched[kind] = informer, handler
                informer.subscribe(handler)

    def _changed(self, informer: Informer, before: Obj | None, after: Obj | None) -> None:
        resource = informer.resource
        with self._lock:
            answers = list(self._answers.values())
        for answer in answers:
            for rule in answer.rules:
                same_kind = (rule.api_version, rule.resource) == (
                    resource.api_version,
                    resource.plural,
                )
                if same_kind and any(o is not None and selects(rule, o) for o in (before, after)):
                    self._wake(answer.parent)
                    break


def selects(rule: RelatedRule, obj: Obj) -> bool:
    """Whether an object of the rule's kind is one that the rule asks for.

    A rule without a namespace reaches into all of them; one without names or selector takes all.
    """
    key = objects.key_of(obj)
    if rule.namespace and rule.namespace != key.namespace:
        return False
    if rule.names:
        return key.name in rule.names
    return objects.matches_selector(rule.label_selector or {}, objects.labels_of(obj))
