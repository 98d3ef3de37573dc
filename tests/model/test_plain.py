"""Plain calls, of which nothing is weighed, get what they would get if everything were."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from cuzktop.model import attribution
from cuzktop.model.attribution import Attributor
from cuzktop.model.chains import printed_chains
from cuzktop.model.joint import Contest
from cuzktop.model.options import Option
from cuzktop.model.state import Call
from tests import logsim
from tests.corelog import report
from tests.logsim import Knobs

BASE = Knobs(jobs=5, synth=1500, srs=300, cuts=0, torn=0.03)
LOGS = {
    "1x1": replace(BASE, workers=1),
    "1x2": BASE,
    "1x3": replace(BASE, workers=3),
    "2x2": replace(BASE, gpus=2),
    "4x2": replace(BASE, gpus=4, jobs=8),
    "fails": replace(BASE, fail_gpu=0.05, fail_finish=0.05, retry=True),
    "4x3": replace(BASE, gpus=4, workers=3, jobs=6, concurrency=8),
    "8x3": replace(BASE, gpus=8, workers=3, jobs=4, concurrency=8),
    "s41": replace(BASE, version=41),
    "s37": replace(BASE, version=37),
}
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda log: log,
    "front cut off": lambda log: logsim.cut_front(log, 0.4),
    "lines lost": lambda log: logsim.drop_lines(log, 0.02, 3),
    "lines twice": lambda log: logsim.double_lines(log, 9),
    "only stderr": lambda log: logsim.only_stream(log, "stderr"),
}


def weigh_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attribution, "only_chain", lambda *_: None)
    patch.setattr(Attributor, "_settle_plainly", lambda *_: False)
    patch.setattr(Attributor, "_settle_chains_apart", lambda *_: False)
    patch.setattr(Contest, "_is_plain", lambda *_: False)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", LOGS)
def test_a_log_tells_the_same_with_every_call_weighed(
    name: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{name} {damage}")
    for _ in range(3 if LOGS[name].gpus <= 2 else 1):
        knobs = replace(LOGS[name], seed=rng.randrange(1 << 30))
        log = DAMAGE[damage](logsim.simulate(knobs)[0])
        size = rng.choice((300, 4096, 65536))
        plainly = json.dumps(report(log, size))
        with monkeypatch.context() as patch:
            weigh_everything(patch)
            assert json.dumps(report(log)) == plainly


@pytest.mark.parametrize("damage", ["nothing", "front cut off", "lines lost"])
def test_what_is_listed_plainly_is_all_that_can_be_listed(
    damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[Option] = []
    plainly = Attributor._list_plainly

    def checked(self: Attributor, call: Call) -> bool:
        plain = plainly(self, call)
        if plain:
            assert call.chains == printed_chains(call, self.pools)
            assert call.cpu_options == self._preparations(call)
            compared.extend(call.chains)
        return plain

    monkeypatch.setattr(Attributor, "_list_plainly", checked)
    for name in ("1x1", "1x2", "2x2"):
        for seed in range(4):
            report(DAMAGE[damage](logsim.simulate(replace(LOGS[name], seed=seed))[0]))
    assert len(compared) > 200


def test_nearly_every_call_of_a_sound_log_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    settled: list[bool] = []
    plainly = Attributor._settle_plainly

    def noted(self: Attributor, ripe: Sequence[Call], ended: Sequence[Call]) -> bool:
        settled.append(plainly(self, ripe, ended))
        return settled[-1]

    monkeypatch.setattr(Attributor, "_settle_plainly", noted)
    report(logsim.simulate(replace(BASE, torn=0.0, jobs=10))[0])
    assert len(settled) > 50
    assert sum(settled) > 0.6 * len(settled)
