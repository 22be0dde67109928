"""Fetches many files with a bounded number of connections, and proves each of them.

Workers prefer a file of their own, which they stream straight through; when there are fewer files
than workers, the idle ones fetch ahead in a file that another one is writing. Only those parts are
held in memory, and their number is bounded, so memory does not grow with a file or with its
number of parts.
"""

import collections.abc
import contextlib
import pathlib
import threading

from fetcher import assembly, errors, plans, streams

# A part that waits in memory, and how many may: 64 MiB at most, under the 150 MiB that the Job
# is meant to need in all. At 8 MiB a request's round trip costs little on a fast line.
_AHEAD_BYTES = 8 * 1024 * 1024
_AHEAD_PARTS = 8
# A part of a file that one worker has to itself is streamed straight through and needs no memory;
# it ends only so that others can join.
_ALONE_BYTES = 64 * 1024 * 1024


class _Job:
    """A file and how much of it is claimed. Guarded by the scheduler's lock."""

    def __init__(self, file: plans.RemoteFile, target: assembly.Assembly) -> None:
        self.file = file
        self.target = target
        self.claimed = 0
        self.workers = 0
        self.ranges = True
        self.opened = False

    @property
    def left(self) -> int:
        return self.file.size - self.claimed


class Downloads:
    """All files of a plan on their way into one folder."""

    def __init__(
        self,
        reader: streams.Reader,
        folder: pathlib.Path,
        *,
        advance: collections.abc.Callable[[int], None],
        may_write: collections.abc.Callable[[], None],
        abort: collections.abc.Callable[[], None],
    ) -> None:
        self._reader = reader
        self._abort = abort
        self._folder = folder
        self._advance = advance
        self._may_write = may_write
        self._turn = threading.Condition()
        self._waiting: list[plans.RemoteFile] = []
        self._open: list[_Job] = []
        self._ahead = 0
        self._connections = 1
        self._failure: BaseException | None = None

    def run(self, files: collections.abc.Iterable[plans.RemoteFile], connections: int) -> None:
        """Fetch every file or raise the first failure; leftovers on disk are prefixes.

        The caller's thread only waits, so that a signal reaches it at once.
        """
        # The largest first: the end is then short, with all workers on small files.
        self._waiting = sorted(files, key=lambda file: (file.size, file.path))
        self._connections = connections
        workers = [
            threading.Thread(target=self._work, name=f"fetch-{n}", daemon=True)
            for n in range(connections)
        ]
        for thread in workers:
            thread.start()
        try:
            _join(workers)
        except BaseException as e:
            self._fail(e)
            raise
        finally:
            # Nobody may write any more once the folder is let go.
            _join(workers)
            for job in self._open:
                job.target.close()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            while (claimed := self._claim()) is not None:
                job, part = claimed
                if part is None:
                    self._begin(job)
                else:
                    self._fetch(job, part)
        except BaseException as e:  # noqa: BLE001 - handed to the thread that waits for the end.
            self._fail(e)

    def _claim(self) -> tuple[_Job, assembly.Part | None] | None:
        """The next thing to do: open a file, or fetch a part; None when nothing is left."""
        with self._turn:
            while self._failure is None:
                if (job := self._alone()) is not None:
                    return job, self._take(job, self._alone_bytes(job), ahead=False)
                if self._waiting:
                    return self._take_new(), None
                if not self._open:
                    return None
                if (job := self._to_join()) is not None:
                    self._ahead += 1
                    return job, self._take(job, _AHEAD_BYTES, ahead=True)
                self._turn.wait()
            return None

    def _alone(self) -> _Job | None:
        """A file that nobody fetches: all that was claimed of it is written."""
        fitting = (j for j in self._open if j.opened and not j.workers and j.left)
        return next(fitting, None)

    def _alone_bytes(self, job: _Job) -> int:
        if not job.ranges:
            return job.left
        # Others will join soon where they have no file of their own: then the parts that they
        # fetch ahead had better not wait long for this one.
        crowded = len(self._open) + len(self._waiting) < self._connections
        return _AHEAD_BYTES if crowded else _ALONE_BYTES

    def _to_join(self) -> _Job | None:
        if self._ahead >= _AHEAD_PARTS:
            return None
        fitting = [j for j in self._open if j.opened and j.ranges and j.left]
        return min(fitting, key=lambda job: job.workers, default=None)

    def _take(self, job: _Job, most: int, *, ahead: bool) -> assembly.Part:
        start = job.claimed
        job.claimed += min(most, job.left)
        job.workers += 1
        return job.target.claim(start, job.claimed, ahead=ahead)

    def _take_new(self) -> _Job:
        file = self._waiting.pop()
        job = _Job(file, self._target(file))
        job.workers = 1
        self._open.append(job)
        return job

    def _target(self, file: plans.RemoteFile) -> assembly.Assembly:
        return assembly.Assembly(
            file,
            self._folder / file.path,
            advance=self._advance,
            may_write=self._may_write,
        )

    def _begin(self, job: _Job, *, resume: bool = True) -> None:
        job.target.open(resume=resume)
        with self._turn:
            job.claimed = job.target.written
            job.workers = 0
            job.opened = True
            complete = not job.left
            self._turn.notify_all()
        if complete:
            self._finish(job)

    def _fetch(self, job: _Job, part: assembly.Part) -> None:
        if job.ranges:
            views = self._reader.stretch(job.file, part.start, part.end)
        else:
            views = self._reader.whole(job.file, part.start)
        ended: list[assembly.Part] = []
        with contextlib.closing(views):
            try:
                for view in views:
                    job.target.accept(part, view)
            except streams.NoRanges:
                job.ranges = False
            else:
                ended = job.target.done(part)
        self._leave(job, ended)

    def _leave(self, job: _Job, ended: list[assembly.Part]) -> None:
        """End a worker's part in a file, and the file if it was the last."""
        with self._turn:
            job.workers -= 1
            if not job.ranges and not job.workers:
                ended = ended + job.target.forget_parts()
                job.claimed = job.target.written
            self._ahead -= sum(part.ahead for part in ended)
            complete = not job.workers and not job.left
            self._turn.notify_all()
        if complete:
            self._finish(job)

    def _finish(self, job: _Job) -> None:
        try:
            job.target.finish()
        except errors.Mismatch:
            if not job.target.resumed:
                raise
            # An earlier run's leftovers were not what they seemed; only a fresh copy can tell.
            self._advance(-job.file.size)
            job.target = self._target(job.file)
            with self._turn:
                job.opened = False
                job.workers = 1
            self._begin(job, resume=False)
            return
        with self._turn:
            self._open.remove(job)
            self._turn.notify_all()

    def _fail(self, failure: BaseException) -> None:
        with self._turn:
            if self._failure is None:
                self._failure = failure
            self._turn.notify_all()
        self._reader.stop.set()
        self._abort()


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        while thread.is_alive():
            thread.join(timeout=0.5)
