from __future__ import annotations

import pytest

from cuzktop.columns import LADDER, PARTITION, PARTITION_COLUMNS, STAGE_KEYS, partition_json
from cuzktop.dataclass import replace
from cuzktop.frame import PartitionRow
from tests.headless.fixtures import FAILED_ROW, INFERRED_ROW, OLD_ROW, ROW, SHARES, WHOLE_ROW

PARTITION_KEYS = [
    *("job", "attempt", "partition", "kind", "state", "worker", "gpu", "attribution"),
    *("attribution_by", "derived", "synth_start_ms", "bracket_start_ms", "bracket_end_ms"),
    *("synth_ms", "queue_ms", "pre_lock_cpu_ms", "lock_wait_ms", "lock_held_ms", "ntt_msm_h_ms"),
    *("barrier_wait_ms", "batch_add_ms", "tail_msm_ms", "gpu_total_ms", "kernel_ms"),
    *("prep_msm_ms", "b_g2_msm_ms", "bracket_ms", "gpu_ms"),
]


def test_a_partition_has_the_contracts_keys_in_its_order() -> None:
    assert list(partition_json(ROW)) == PARTITION_KEYS


ONLY_SHOWN = {"lock_at_ms", "pickup_ms", "message"}  # for the screen's time line and details


def test_no_field_of_a_row_is_without_a_column() -> None:
    fields = set(PartitionRow.__slots__)
    assert fields - ONLY_SHOWN == set(PARTITION_KEYS)


def test_a_row_as_json() -> None:
    assert partition_json(OLD_ROW) == {
        "job": "porep-1000-40021",
        "attempt": 1,
        "partition": 3,
        "kind": "porep",
        "state": "done",
        "worker": 1,
        "gpu": 0,
        "attribution": "exact",
        "attribution_by": {"lock": "exact", "kernel": "exact", "cpu": "exact"},
        "derived": ["barrier_wait_ms", "lock_held_ms"],
        "synth_start_ms": 2330,
        "bracket_start_ms": 37712,
        "bracket_end_ms": 41390,
        "synth_ms": 33120,
        "queue_ms": 2170,
        "pre_lock_cpu_ms": None,
        "lock_wait_ms": None,
        "lock_held_ms": 1830,
        "ntt_msm_h_ms": 690,
        "barrier_wait_ms": 402,
        "batch_add_ms": 650,
        "tail_msm_ms": 83,
        "gpu_total_ms": 1825,
        "kernel_ms": 1423,
        "prep_msm_ms": 1909,
        "b_g2_msm_ms": 484,
        "bracket_ms": 3678,
        "gpu_ms": 3676,
    }


def test_a_row_that_nothing_was_assigned_to_says_none_of_each() -> None:
    document = partition_json(FAILED_ROW)
    assert document["attribution_by"] == {"lock": "none", "kernel": "none", "cpu": "none"}
    assert document["lock_held_ms"] is None


@pytest.mark.parametrize(
    ("row", "key", "text"),
    [
        pytest.param(ROW, "lock_wait_ms", "1.41s", id="printed"),
        pytest.param(ROW, "pre_lock_cpu_ms", "6ms", id="short"),
        pytest.param(OLD_ROW, "barrier_wait_ms", "~402ms", id="derived"),
        pytest.param(OLD_ROW, "lock_wait_ms", "–", id="unknown"),
        pytest.param(INFERRED_ROW, "prep_msm_ms", "~1.91s", id="owner-inferred"),
        pytest.param(INFERRED_ROW, "lock_held_ms", "1.83s", id="owner-of-the-lock-exact"),
        pytest.param(INFERRED_ROW, "bracket_ms", "3.70s", id="bracket-has-its-own-name"),
        pytest.param(WHOLE_ROW, "partition", "whole", id="in-one-piece"),
        pytest.param(WHOLE_ROW, "kernel_ms", "–", id="nothing-assigned"),
        pytest.param(FAILED_ROW, "state", "failed", id="state"),
    ],
)
def test_a_figure_as_text(row: PartitionRow, key: str, text: str) -> None:
    assert PARTITION[key].text(row) == text


def test_durations_are_in_milliseconds_and_aligned_to_the_right() -> None:
    for column in PARTITION_COLUMNS:
        assert (column.unit == "ms") == column.key.endswith("_ms")
        if column.unit == "ms":
            assert column.right


def test_stages_are_the_durations_of_a_partition() -> None:
    assert [*PARTITION_KEYS[13:]] == [*STAGE_KEYS]


def test_the_ladder_is_widest_first_and_marks_a_derived_lock() -> None:
    assert [step.key for step in LADDER] == [
        "bracket_union_pct",
        "lock_held_pct",
        "gpu_section_pct",
        "kernel_pct",
    ]
    derived = replace(SHARES, lock_derived=True)
    assert [step.text(derived) for step in LADDER] == ["91.0", "~90.2", "89.6", "47.7"]
