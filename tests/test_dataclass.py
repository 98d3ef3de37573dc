"""Our data classes do what the standard library's do, as far as we use them."""

from __future__ import annotations

import pickle
from typing import ClassVar

import pytest

from cuzktop.dataclass import NamedTuple, dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Place:
    worker: int
    gpu: int = 0
    unit: ClassVar[str] = "GPU"

    @property
    def text(self) -> str:
        return f"{self.unit} {self.gpu}"


@dataclass(slots=True, kw_only=True)
class Heap:
    name: str
    items: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    at_ms: float = 0.0


def test_fields_are_filled_by_place_or_name() -> None:
    assert Place(3) == Place(worker=3, gpu=0)
    assert Place(3, 1).text == "GPU 1"
    with pytest.raises(TypeError, match="worker"):
        Place()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Heap("a")  # type: ignore[call-arg]


def test_a_made_default_belongs_to_one_instance() -> None:
    one, other = Heap(name="a"), Heap(name="b")
    one.items.append(1)
    assert (one.items, other.items) == ([1], [])


def test_equal_values_are_equal_and_found_in_a_set() -> None:
    assert {Place(1, 2), Place(1, 2), Place(2, 1)} == {Place(1, 2), Place(2, 1)}
    assert Heap(name="a") == Heap(name="a")
    assert Heap(name="a") != Heap(name="b")
    other: object = Heap(name="1")
    assert Place(1) != other
    with pytest.raises(TypeError, match="unhashable"):
        hash(Heap(name="a"))


def test_without_eq_each_is_itself_alone() -> None:
    one = Picture()
    assert one != Picture()
    assert {one, Picture()} - {one} != {one}


def test_replace_changes_a_copy() -> None:
    one = Place(1, 2)
    assert (replace(one, gpu=5), one) == (Place(1, 5), Place(1, 2))


def test_it_is_shown_with_its_values_and_takes_no_other_names() -> None:
    assert repr(Place(1)) == "Place(worker=1, gpu=0)"
    with pytest.raises(AttributeError):
        Heap(name="a").size = 1  # type: ignore[attr-defined]


class Mark(NamedTuple):
    at_ms: int
    job: str = "j"

    @property
    def text(self) -> str:
        return f"{self.job} at {self.at_ms}"


def test_a_named_tuple_is_a_tuple_with_names() -> None:
    one = Mark(3)
    assert one == (3, "j") == Mark(at_ms=3, job="j")
    assert (one.at_ms, one.job, one.text) == (3, "j", "j at 3")
    at_ms, job = one
    assert (at_ms, job) == (3, "j")
    assert hash(one) == hash((3, "j"))
    assert repr(one) == "Mark(at_ms=3, job='j')"
    assert not hasattr(one, "__dict__")
    with pytest.raises(AttributeError):
        one.at_ms = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="at_ms"):
        Mark()  # type: ignore[call-arg]


def test_a_named_tuple_can_be_replaced_in_part_and_sent() -> None:
    one = Mark(3)
    assert one._replace(job="k") == Mark(3, "k")
    assert one._asdict() == {"at_ms": 3, "job": "j"}
    with pytest.raises(TypeError, match="no such fields: size"):
        one._replace(size=1)  # type: ignore[call-arg]
    sent = pickle.loads(pickle.dumps(one))  # noqa: S301 - our own
    assert type(sent) is Mark
    assert sent == one


class Named(NamedTuple):
    self: int
    kind: str


@dataclass(slots=True, kw_only=True)
class Labelled:
    args: int
    values: str


def test_fields_may_have_any_name() -> None:
    assert Named(self=1, kind="k") == (1, "k")
    assert Labelled(args=1, values="v") == Labelled(values="v", args=1)
