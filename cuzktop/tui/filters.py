"""The filter of the partitions: `kind:snap state:failed job:abc worker:1 gpu:0 attr:inferred`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cuzktop.dataclass import dataclass
from cuzktop.frame import PartitionRow

NUMBERS: Mapping[str, Callable[[PartitionRow], int | None]] = {
    "worker": lambda row: row.worker,
    "gpu": lambda row: row.gpu,
    "attempt": lambda row: row.attempt,
    "part": lambda row: row.partition,
}
WORDS: Mapping[str, Callable[[PartitionRow], str]] = {
    "kind": lambda row: row.kind or "",
    "state": lambda row: row.state,
    "attr": lambda row: row.attribution,
}
NAMES = (*WORDS, "job", *NUMBERS)


@dataclass(frozen=True, slots=True)
class Filter:
    """What rows must fit: all of `terms`, each a name and the values of which one must match."""

    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def fits(self, row: PartitionRow) -> bool:
        """Whether `row` fits."""
        return all(_fits(row, name, values) for name, values in self.terms)


def _fits(row: PartitionRow, name: str, values: tuple[str, ...]) -> bool:
    if name in NUMBERS:
        number = NUMBERS[name](row)
        return ("-" if number is None else str(number)) in values
    if name in WORDS:
        word = WORDS[name](row)
        return any(word.startswith(value) for value in values)
    job = row.job.casefold()
    return any(value in job for value in values)


def parse_filter(text: str) -> tuple[Filter, str]:
    """The filter that `text` asks for, and what is wrong with it (empty if nothing is).

    Words without a name match the job; values after a comma are alternatives.
    """
    terms: list[tuple[str, tuple[str, ...]]] = []
    problem = ""
    for word in text.split():
        name, colon, rest = word.partition(":")
        name = name.casefold()
        if not colon or not (name in NAMES or name.isalpha()):
            terms.append(("job", (word.casefold(),)))
            continue
        values = tuple(value for value in rest.casefold().split(",") if value)
        if name not in NAMES:
            problem = f"no {name}: in the filter, but {', '.join(NAMES)}"
        elif values:
            wrong = [value for value in values if name in NUMBERS and not value.isdecimal()]
            if wrong and wrong != ["-"]:
                problem = f"{name}: wants a number, not {wrong[0]}"
            terms.append((name, values))
    return Filter(tuple(terms)), problem
