"""Which controllers run: follows the controller resources of the API server."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable

from tests.cluster.standin import composite, decorator
from tests.cluster.standin.client import ApiError
from tests.cluster.standin.informer import Informer, Informers
from tests.cluster.standin.objects import BadController, Key, Obj
from tests.cluster.standin.runner import Runner
from tests.cluster.standin.workqueue import WorkQueue

API_VERSION = "metacontroller.k8s.io/v1alpha1"

_log = logging.getLogger(__name__)

_Start = Callable[[Informers, Obj], Runner]
_KINDS: dict[str, _Start] = {
    "compositecontrollers": composite.start,
    "decoratorcontrollers": decorator.start,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Running:
    uid: str
    generation: int
    runner: Runner


class Manager:
    """Starts and stops controllers.

    One that cannot start, most often because a child kind's CRD is missing, is tried again after a
    doubling backoff, and at once when its resource is touched.
    """

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._queue: WorkQueue[tuple[str, str]] = WorkQueue()
        self._running: dict[tuple[str, str], _Running] = {}
        self._controllers: dict[str, Informer] = {}

    def run(self) -> None:
        """Run until the process ends; raises an `ApiError` where its CRDs are missing."""
        for plural in _KINDS:
            informer = self._informers.get(API_VERSION, plural)
            self._controllers[plural] = informer
            informer.subscribe(functools.partial(self._changed, plural))
            for controller in informer.all():
                self._changed(plural, None, controller)
        while (name := self._queue.get()) is not None:
            self._follow(*name)
            self._queue.done(name)

    def _changed(self, plural: str, before: Obj | None, after: Obj | None) -> None:
        for controller in (before, after):
            if controller is not None:
                self._queue.add((plural, controller["metadata"]["name"]))

    def _follow(self, plural: str, name: str) -> None:
        """Bring one controller to what its resource says."""
        wanted = self._controllers[plural].get(Key("", name))
        running = self._running.get((plural, name))
        if wanted is not None and running is not None:
            meta = wanted["metadata"]
            if (running.uid, running.generation) == (meta["uid"], meta["generation"]):
                return
        if running is not None:
            running.runner.stop()
            del self._running[plural, name]
            _log.info("stopped %s %s", plural, name)
        if wanted is not None:
            self._start(plural, name, wanted)

    def _start(self, plural: str, name: str, controller: Obj) -> None:
        try:
            runner = _KINDS[plural](self._informers, controller)
        except (ApiError, BadController) as e:
            wait = self._queue.fail((plural, name))
            _log.warning("%s %s cannot start, again in %.3g s: %s", plural, name, wait, e)
            return
        self._queue.forget((plural, name))
        meta = controller["metadata"]
        self._running[plural, name] = _Running(
            uid=meta["uid"], generation=meta["generation"], runner=runner
        )
        _log.info("started %s %s", plural, name)
