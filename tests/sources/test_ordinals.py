"""The daemon's number of each card, by what its environment says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuzktop.sources.ordinals import Card, CudaChoice, number_cards, read_choice

ALIKE = [Card(f"GPU-{letter * 8}", "NVIDIA H200") for letter in "abcd"]
MIXED = [Card("GPU-aaaa", "NVIDIA L4"), Card("GPU-bbbb", "NVIDIA H200")]


@pytest.mark.parametrize(
    ("choice", "numbers"),
    [
        pytest.param(None, (0, 1, 2, 3), id="no daemon"),
        pytest.param(CudaChoice(), (0, 1, 2, 3), id="nothing set"),
        pytest.param(CudaChoice("2,0"), (1, 2, 0, 3), id="by number: the unseen ones come after"),
        pytest.param(CudaChoice(" 3 , 1 "), (2, 1, 3, 0), id="blanks"),
        pytest.param(CudaChoice("GPU-c,GPU-aaaa"), (1, 2, 0, 3), id="by UUID, shortened"),
        pytest.param(CudaChoice("1,9,0"), (1, 0, 2, 3), id="CUDA stops at the first wrong one"),
        pytest.param(CudaChoice("1,-1,0"), (1, 0, 2, 3), id="minus one hides the rest"),
    ],
)
def test_alike_cards_are_numbered_without_doubt(
    choice: CudaChoice | None, numbers: tuple[int, ...]
) -> None:
    assert number_cards(ALIKE, choice) == (numbers, "")


@pytest.mark.parametrize(
    ("cards", "choice", "words"),
    [
        pytest.param(MIXED, CudaChoice(), "CUDA_DEVICE_ORDER=PCI_BUS_ID", id="fastest first"),
        pytest.param(MIXED, None, "CUDA_DEVICE_ORDER=PCI_BUS_ID", id="no daemon known"),
        pytest.param(MIXED, CudaChoice("0"), "CUDA_DEVICE_ORDER=PCI_BUS_ID", id="which is 0?"),
        pytest.param(ALIKE, CudaChoice(known=False), "its user and root only", id="not readable"),
        pytest.param(ALIKE, CudaChoice("MIG-1234"), "parts of cards", id="MIG"),
        pytest.param(ALIKE, CudaChoice(""), "(empty) names none", id="none visible"),
        pytest.param(
            ALIKE, CudaChoice("GPU-dead"), "(GPU-dead) names none", id="another machine's"
        ),
    ],
)
def test_where_numbers_can_differ_there_is_a_warning(
    cards: list[Card], choice: CudaChoice | None, words: str
) -> None:
    numbering = number_cards(cards, choice)
    assert words in numbering.doubt
    assert sorted(numbering.numbers) == list(range(len(cards)))


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(CudaChoice(order="PCI_BUS_ID"), id="bus order"),
        pytest.param(CudaChoice("GPU-bbbb", None), id="by UUID"),
    ],
)
def test_settled_numbers_of_different_cards_need_no_warning(choice: CudaChoice) -> None:
    assert number_cards(MIXED, choice).doubt == ""


def test_one_card_is_number_0_whatever_is_known() -> None:
    assert number_cards([Card()], CudaChoice(known=False)) == ((0,), "")


def test_the_daemons_environment_is_read(tmp_path: Path) -> None:
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "environ").write_bytes(
        b"PATH=/bin\0CUDA_VISIBLE_DEVICES=1,0\0CUDA_DEVICE_ORDER=PCI_BUS_ID\0\xff\0"
    )
    assert read_choice(12, tmp_path) == CudaChoice("1,0", "PCI_BUS_ID")
    assert read_choice(13, tmp_path) is None
    assert read_choice(None, tmp_path) is None
    (tmp_path / "14" / "environ").mkdir(parents=True)  # can't be read, whoever asks
    assert read_choice(14, tmp_path) == CudaChoice(known=False)
