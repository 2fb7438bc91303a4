"""The clock of a question in Spark: it stands still while all of the question waits for executors.

Where accounts share a cluster, a statement may stand in a queue behind those of others. How long it
does is theirs, and must not end it: its account would be suspended for what it has not done. So
a deadline is put off by the time for which a question has jobs, and none of their tasks runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet, ref

from dpsql.engines.base.deadline import Deadline
from dpsql.engines.spark.sessions import DISCREET

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECKS_EVERY: Final = 0.2  # seconds
_RUNNING: Final = "RUNNING"
_REPORTS: Final = ("spark.connect.progress.reportInterval", "200ms")


class ExecutorClock:
    """Puts a deadline off while a run waits; a thread of its own looks, until it is stopped.

    The thread holds nothing that would keep the deadline alive.
    """

    def __init__(self, deadline: Deadline, sessions: Sequence[SparkSession]) -> None:
        self._deadline = ref(deadline)
        self._sessions = sessions
        self._over = threading.Event()
        self._reports: WeakSet[_Reports] = WeakSet()

    def start(self) -> None:
        """Begin the checks."""
        self._over = threading.Event()
        seen = (self._over, self._deadline, self._sessions, self._reports)
        threading.Thread(target=_check, args=seen, daemon=True, name=__name__).start()

    def stop(self) -> None:
        """Stop the checks."""
        self._over.set()

    def hear(self, session: SparkSession) -> None:
        """Have a server tell how many tasks of a session run; here Spark is asked itself."""
        given: Any = session
        if not hasattr(given, "_jsparkSession") and hasattr(given, "registerProgressHandler"):
            with suppress(Exception), DISCREET:
                given.conf.set(*_REPORTS)
            reports = _Reports()
            given.registerProgressHandler(reports)
            self._reports.add(reports)


@dataclass(eq=False)
class _Reports:
    """The latest reports of a server on a session's running statement."""

    waits: bool = False

    def __call__(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        """Take a report: there are tasks to be done, and none of them runs."""
        left = any(each.num_completed_tasks < each.num_tasks for each in stages or ())
        self.waits = not done and left and inflight_tasks == 0


def _check(
    over: threading.Event,
    deadline: ref[Deadline],
    sessions: Sequence[SparkSession],
    reports: Iterable[_Reports],
) -> None:
    last = time.monotonic()
    while not over.wait(_CHECKS_EVERY):
        waits = False
        with suppress(Exception), DISCREET:  # of the bridge to Spark: then the clock goes on
            waits = any(each.waits for each in tuple(reports)) or _waits_here(tuple(sessions))
        put_off = deadline()
        if put_off is None:
            return
        now = time.monotonic()
        if waits:
            put_off.prolong(now - last)
        last = now
        del put_off


def _waits_here(sessions: Iterable[Any]) -> bool:
    """Tell whether sessions in this process have jobs that run, and none of their tasks does."""
    jobs = tasks = 0
    for session in sessions:
        java = getattr(session, "_jsparkSession", None)
        if java is None:
            continue
        tracker = java.sparkContext().statusTracker()
        for number in tracker.getJobIdsForTag(java.sessionJobTag()):
            job = tracker.getJobInfo(number)
            if not job.isDefined() or str(job.get().status()) != _RUNNING:
                continue
            jobs += 1
            for stage in map(tracker.getStageInfo, job.get().stageIds()):
                tasks += stage.get().numActiveTasks() if stage.isDefined() else 0
    return jobs > 0 and tasks == 0
