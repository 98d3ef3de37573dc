"""Where the daemon's own status contradicts its log: a second opinion, with its traps in mind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cuzktop.dataclass import NamedTuple
from cuzktop.events import DaemonStatus, StatusPartition
from cuzktop.units import age

SURE_AFTER_MS = 10_000.0  # log and answer are of different instants, and both come late
STUCK_AFTER_MS = 60_000.0  # a finished partition waits for its finalizer, seconds at most
CLOCK_DRIFT = 0.001  # of a time span: one clock is monotonic, the other follows the network
MAX_DISAGREEMENTS = 5

Key = tuple[str, int]
"""Job and partition."""


class LogPicture(NamedTuple):
    """What the log says at the time of an answer, of partitioned jobs alone (porep, snap).

    `run_age_ms` is the time since the newest run's TIMELINE zero; `completed` its proofs so far,
    None unless the log has the run from its start. `brackets` are the open ones with their ages,
    `done` the partitions that have ended, of jobs that are still in flight.
    """

    run_age_ms: float | None = None
    completed: int | None = None
    brackets: Mapping[Key, float] = {}  # never changed
    done: frozenset[Key] = frozenset()


def disagreements(status: DaemonStatus, log: LogPicture) -> list[str]:
    """Where `/status` and the log can't both be right, a sentence each; mostly none.

    What `/status` is known to get wrong (the count of syntheses, workers on a PoSt, partitions
    whose start call failed) is left alone, and so is what may only be late.
    """
    lives = _other_life(status, log)
    if lives:
        return [lives]
    found = [*_open_brackets(status, log), *_stuck(status, log), *_counts(status, log)]
    return found[:MAX_DISAGREEMENTS]


def _other_life(status: DaemonStatus, log: LogPicture) -> str:
    """Whether they tell of two lives of the daemon: then nothing else can be compared."""
    up_ms, run_ms = status.uptime_ms, log.run_age_ms
    if up_ms is None or run_ms is None:
        return ""
    if abs(up_ms - run_ms) <= max(SURE_AFTER_MS, CLOCK_DRIFT * min(up_ms, run_ms)):
        return ""
    if up_ms < run_ms:
        return (
            f"the daemon was started {age(up_ms)} ago by /status, the log's newest run is"
            f" {age(run_ms)} old: the daemon that runs now writes elsewhere"
        )
    return (
        f"the daemon has been up {age(up_ms)} by /status, the log's newest run {age(run_ms)}:"
        " they are two daemons"
    )


def _partitions(status: DaemonStatus) -> dict[Key, StatusPartition]:
    return {
        (job.job, partition.partition): partition
        for job in status.jobs or ()
        for partition in job.partitions
    }


def _open_brackets(status: DaemonStatus, log: LogPicture) -> Iterator[str]:
    if status.jobs is None:
        return
    listed = _partitions(status)
    jobs = {job.job for job in status.jobs}
    for (job, partition), open_ms in sorted(log.brackets.items()):
        if open_ms < SURE_AFTER_MS:
            continue
        one = listed.get((job, partition))
        begun = f"{job} [{partition}] has been in its bracket for {age(open_ms)} by the log"
        if job not in jobs:
            yield f"{begun}, and /status doesn't know the job"
        elif one is not None and one.state in ("pending", "synthesizing", "synth_done"):
            yield f"{begun}, {one.state} by /status"
        elif one is not None and one.state in ("done", "failed"):
            yield f"{begun}, {one.state} by /status: the log may have lost its end"


def _stuck(status: DaemonStatus, log: LogPicture) -> Iterator[str]:
    for (job, index), one in sorted(_partitions(status).items()):
        if one.state == "gpu" and (one.gpu_ms or 0) > STUCK_AFTER_MS and (job, index) in log.done:
            yield (
                f"{job} [{index}] is done by the log, on the GPU for {age(one.gpu_ms)} by /status:"
                " its finalizer may be stuck"
            )


def _counts(status: DaemonStatus, log: LogPicture) -> Sequence[str]:
    """Proofs that the log doesn't know of; one may just have come."""
    if status.completed is None or log.completed is None or status.completed <= log.completed + 1:
        return ()
    return (
        f"/status counts {status.completed} proofs, the log {log.completed}: lines are missing",
    )
