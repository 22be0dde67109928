"""The Deployment controller's part: as many processes as a Deployment asks for."""

import asyncio
import datetime
from collections.abc import Callable, Iterable, Sequence

from hooks.k8s.objects import Object
from local import kubelet, pods, processes


class Replicas:
    """The processes of one Deployment."""

    def __init__(
        self,
        name: str,
        task: Callable[[str], kubelet.Task],
        book: processes.Keeper,
        changed: Callable[[], None],
        *,
        spare: bool,
    ) -> None:
        """``spare``: a replica may start beside one that still ends; no device is waited for."""
        self._name = name
        self._task = task
        self._book = book
        self._changed = changed
        self._spare = spare
        self._started = 0
        self._living: dict[asyncio.Task[None], kubelet.Replica] = {}

    @property
    def all(self) -> list[kubelet.Replica]:
        """Those that end included."""
        return list(self._living.values())

    def match(self, wanted: int) -> None:
        """Start or end as many as it takes; the least useful end first."""
        staying = [replica for replica in self.all if replica.seen.ending_since is None]
        taken = staying if self._spare else self.all
        for _ in range(wanted - len(taken)):
            self._start()
        doomed = first_to_end([replica.seen for replica in staying])
        for seen in doomed[: max(0, len(staying) - wanted)]:
            next(replica for replica in staying if replica.seen is seen).end()

    async def stop(self) -> None:
        """End all in a hurry; when this returns nothing runs."""
        for replica in self.all:
            replica.end(hurry=True)
        if self._living:
            await asyncio.wait(self._living)

    def _start(self) -> None:
        self._started += 1
        replica = kubelet.Replica(
            self._task(f"{self._name}-{self._started}"), self._book, self._changed
        )
        living = asyncio.create_task(replica.live())
        self._living[living] = replica
        living.add_done_callback(self._ended)

    def _ended(self, living: asyncio.Task[None]) -> None:
        del self._living[living]
        self._changed()
        living.result()  # A failure in here is a bug; the event loop reports it.


def first_to_end(seen: Iterable[pods.Replica]) -> list[pods.Replica]:
    """As the Deployment controller chooses: not ready before ready, young before old."""
    return sorted(seen, key=lambda one: (one.ready, -one.created_at.timestamp()))


def observed(
    deployment: Object, replicas: Sequence[kubelet.Replica], *, now: datetime.datetime
) -> tuple[Object, list[Object]]:
    """The Deployment with its status, and its Pods."""
    seen = [replica.seen for replica in replicas]
    status = pods.deployment_status(deployment, seen, now=now)
    return {**deployment, "status": status}, [pods.pod(deployment, replica) for replica in seen]
