"""The bell: rung from other threads, answered in the loop, silent once it is closed."""

from __future__ import annotations

import asyncio
import threading

from cuzktop.tui.loop_bell import LoopBell


async def test_a_bell_rung_elsewhere_is_answered_in_the_loop() -> None:
    answered: list[int] = []
    rung = asyncio.Event()

    def answer() -> None:
        answered.append(threading.get_ident())
        rung.set()

    bell = LoopBell(asyncio.get_running_loop(), answer)
    for times in (1, 2):
        rung.clear()
        thread = threading.Thread(target=bell.ring)
        thread.start()
        thread.join()
        await asyncio.wait_for(rung.wait(), 10)
        assert answered == [threading.get_ident()] * times
    bell.close()
    bell.ring()
    await asyncio.sleep(0)
    assert len(answered) == 2
