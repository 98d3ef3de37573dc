"""The daemon's latest lines: bounded, whatever they are."""

from __future__ import annotations

from cuzktop.logbook import KEEP_LINE_BYTES, KEEP_LINES, LogBook


def held_bytes(book: LogBook) -> int:
    first, end = book.span
    return sum(map(len, book.read(first, end)))


def test_the_latest_lines_are_kept_by_their_numbers() -> None:
    book = LogBook()
    for start in range(0, 30_000, 700):
        book.extend([b"line %d" % number for number in range(start, start + 700)])
    first, end = book.span
    assert end == 30_100
    assert KEEP_LINES <= end - first <= KEEP_LINES * 5 // 4
    assert book.read(end - 2, end) == [b"line 30098", b"line 30099"]
    assert book.read(0, 10) == []


def test_more_lines_at_once_than_are_kept_are_counted() -> None:
    book = LogBook()
    book.extend([b"%d" % number for number in range(100_000)])
    first, end = book.span
    assert end == 100_000
    assert book.read(first, first + 1) == [b"%d" % first]


def test_long_lines_are_cut_so_that_thousands_of_them_fit() -> None:
    book = LogBook()
    for _ in range(KEEP_LINES // 10):
        book.extend([b"short", *[b"x" * 65_536] * 10])
    first, end = book.span
    assert book.read(end - 11, end) == [b"short", *[b"x" * KEEP_LINE_BYTES] * 10]
    assert held_bytes(book) <= KEEP_LINE_BYTES * KEEP_LINES * 5 // 4
    assert first == 0 or end - first >= KEEP_LINES
