"""Waking threads that sleep."""

from __future__ import annotations

import threading

from cuzktop.bell import Bell, End

PATIENCE_S = 60.0


def test_a_bell_wakes_who_waits_and_is_silent_again() -> None:
    bell, rang = Bell(), list[bool]()
    sleeper = threading.Thread(target=lambda: rang.append(bell.wait(PATIENCE_S)))
    sleeper.start()
    bell.ring()
    sleeper.join(PATIENCE_S)
    assert rang == [True]
    assert not bell.wait(0.001)


def test_a_bell_that_nobody_heard_ends_the_next_wait_and_no_other() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert bell.wait(0.001)
    assert not bell.wait(0.001)


def test_an_end_ends_the_waits_of_all_threads_and_later_ones() -> None:
    end, ended = End(), list[bool]()
    sleepers = [
        threading.Thread(target=lambda wait_s=wait_s: ended.append(end.wait(wait_s)))
        for wait_s in (PATIENCE_S, 2 * PATIENCE_S, None)
    ]
    for sleeper in sleepers:
        sleeper.start()
    assert not end.wait(0.001)
    assert not end.is_set()
    end.set()
    end.set()
    for sleeper in sleepers:
        sleeper.join(PATIENCE_S)
    assert ended == [True] * 3
    assert end.wait(0.0)
    assert end.wait()


def test_an_end_is_not_waited_for_where_the_time_is_over() -> None:
    assert not End().wait(0.0)
    assert not End().wait(-3.0)
