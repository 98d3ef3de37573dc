"""States that last: since when, until when, how often; and that they don't flicker."""

from __future__ import annotations

import pytest

from cuzktop.dataclass import replace
from cuzktop.frame import Frame, Source, StageStats
from cuzktop.watch import Watch
from tests.tui.frames import busy, gpu, job_id

WALL_MS = 1_771_488_751_442.0


def at(frame: Frame, seconds: float) -> Frame:
    """`frame`, so many seconds later."""
    return replace(frame, now_ms=busy().now_ms + 1000.0 * seconds)


def silent(seconds: float, frame: Frame | None = None) -> Frame:
    """A log that has been silent for so long; its clock stands still after two minutes."""
    frame = busy() if frame is None else frame
    shown = replace(frame.source, silent_ms=1000.0 * seconds)
    return replace(at(frame, seconds if seconds <= 120 else 0), source=shown)


def card(**changes: object) -> Frame:
    """A box whose only card reads something else."""
    measured = gpu().nvml
    assert measured is not None
    changed = replace(measured, **changes)  # type: ignore[arg-type]
    return replace(busy(), gpus=(replace(gpu(), nvml=changed),))


def held(seconds: float, count: int = 50, *, later: float = 0.0) -> Frame:
    """A lock held for so long, where 3 s is long; `later` as in `at`."""
    frame = at(busy(), later)
    lock = gpu().lock
    assert lock.holder is not None
    holder = replace(lock.holder, since_ms=frame.now_ms - 1000.0 * seconds)
    usual = {"lock_held_ms": StageStats(count=count, p50=2500, p95=3000, max=3100)}
    return replace(frame, gpus=(replace(gpu(), lock=replace(lock, holder=holder)),), stages=usual)


@pytest.mark.parametrize(
    ("frame", "level", "words"),
    [
        (
            held(7.0),
            "warning",
            f"GPU 0: {job_id(21)}/0 holds the lock longer than usual (p95 3.00s)",
        ),
        (card(age_ms=15_000.0), "error", "GPU 0 can't be read any more"),
        (
            card(age_ms=15_000.0, note="GPU 0 can't be read (GPU is lost); looking for it again"),
            "error",
            "GPU 0 can't be read (GPU is lost); looking for it again",
        ),
        (card(held_down="heat, power cap"), "warning", "GPU 0 is throttled: heat"),
        (card(held_down="power cap"), "info", "GPU 0 works at its power limit"),
        (silent(61), "warning", "the log is silent though 15 partitions are in flight"),
        (silent(7200, replace(busy(), in_flight=())), "info", "the log has ended"),
    ],
)
def test_what_is_wrong_is_said(frame: Frame, level: str, words: str) -> None:
    (alert,) = Watch().look(frame, WALL_MS)
    assert (alert.level, alert.lasts, alert.count) == (level, True, 1)
    assert alert.text.startswith(words)


@pytest.mark.parametrize(
    "frame",
    [
        busy(),
        held(5.9),
        held(7.0, count=9),
        card(held_down="clock setting"),
        card(age_ms=9000.0),
        silent(59),
        silent(110, replace(busy(), in_flight=())),
        replace(silent(7200), source=Source(path="x", lines=9, silent_ms=9e9, read_pct=40.0)),
        Frame(source=Source(path="x", silent_ms=9e9)),
    ],
)
def test_what_is_usual_is_not(frame: Frame) -> None:
    assert Watch().look(frame, WALL_MS) == ()


def test_a_state_has_a_beginning_and_an_end() -> None:
    watch = Watch()
    begun_ms = busy().now_ms

    def hot(seconds: float) -> Frame:
        return at(card(held_down="heat"), seconds)

    for second in range(40):
        (alert,) = watch.look(hot(second), WALL_MS + 1000.0 * second)
        assert (alert.at_ms, alert.lasts) == (begun_ms, True)
    for second in range(40, 140):
        (alert,) = watch.look(at(busy(), second), WALL_MS + 1000.0 * second)
        # What may come again within a minute hasn't ended: nobody wants to see it come and go.
        assert alert.lasts == (second <= 99)
    assert (alert.at_ms, alert.until_ms) == (begun_ms, begun_ms + 39_000.0)
    (alert,) = watch.look(hot(200), WALL_MS + 200_000.0)
    assert (alert.at_ms, alert.first_ms) == (begun_ms + 200_000.0, begun_ms)
    assert (alert.lasts, alert.until_ms, alert.count) == (True, None, 2)


def test_what_comes_and_goes_is_one_state_that_is_counted() -> None:
    watch = Watch()
    for second in range(60):
        frame = card(held_down="heat") if second % 10 < 5 else busy()
        alerts = watch.look(at(frame, second), WALL_MS + 1000.0 * second)
        assert [alert.lasts for alert in alerts] == [True]
    assert alerts[0].count == 6
    assert alerts[0].at_ms == busy().now_ms


def test_a_lock_that_was_given_back_is_not_said_to_be_held() -> None:
    watch = Watch()
    for second in range(7, 10):
        (alert,) = watch.look(held(second, later=second), WALL_MS + 1000.0 * second)
        assert alert.lasts
        assert " holds the lock longer" in alert.text
    (alert,) = watch.look(at(busy(), 10), WALL_MS + 10_000.0)
    assert not alert.lasts
    assert " held the lock longer" in alert.text
    assert alert.until_ms == busy().now_ms + 9000.0
    assert alert.at_ms == busy().now_ms
    # The next one is another hold, though none was seen between them.
    for second, count in ((12, 2), (13, 2), (17, 3)):
        since = {12: 7, 13: 8, 17: 7}[second]
        (alert,) = watch.look(held(since, later=second), WALL_MS + 1000.0 * second)
        assert (alert.count, alert.at_ms) == (count, busy().now_ms + 1000.0 * (second - since))


def test_a_silence_began_when_the_log_grew_last_though_its_clock_stands_still() -> None:
    watch = Watch()
    for seconds in (70, 119, 121, 3600):
        frame = silent(seconds)
        alert = watch.look(frame, WALL_MS + 1000.0 * seconds)[-1]
        assert alert.at_ms is not None
        assert frame.present_ms - alert.at_ms == pytest.approx(1000.0 * seconds)


def test_a_clock_that_is_set_back_begins_anew() -> None:
    watch = Watch()
    watch.look(card(held_down="heat"), WALL_MS)
    assert watch.look(busy(), WALL_MS - 3_600_000.0) == ()
