"""The program itself, told that this machine has four cards.

python benchmarks/live_app.py follow LOG [OPTION …]     as `cuzktop LOG …`
python benchmarks/live_app.py play LOG [OPTION …]       as `cuzktop --demo …` of that log, with a
                                                        reading of each card a second
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from biglog import STAMP_AT_ALL, seconds_of
from fake_nvml import reader, samples_csv

from cuzktop import cli
from cuzktop.sources import demos, nvml

NAME = "benchmark"


def span_s(log: Path) -> tuple[int, int]:
    """Seconds since 1970 of the log's first and last time stamp."""
    with log.open("rb") as file:
        first = STAMP_AT_ALL.search(file.read(65536))
        file.seek(-min(65536, log.stat().st_size), os.SEEK_END)
        last = STAMP_AT_ALL.findall(file.read())
    if first is None or not last:
        return 0, 0
    return seconds_of(first[1]), seconds_of(last[-1][0])


def play(log: Path, options: list[str], folder: Path) -> int:
    """Play `log` as if it were one of the canned ones."""
    demo = folder / NAME
    demo.mkdir()
    (demo / "daemon.log").symlink_to(log.resolve())
    (demo / "about.txt").write_text("A log to measure with.\nutc=1\n")
    begin_s, end_s = span_s(log)
    with (demo / "gpu.csv").open("w") as file:
        file.writelines(samples_csv(datetime.fromtimestamp(begin_s, UTC), end_s - begin_s))
    setattr(demos, "demos_root", lambda: folder)  # noqa: B010 - a module's own function gives way
    return cli.main(["--demo", NAME, *options])


def main() -> int:
    how, log, *options = sys.argv[1:]
    setattr(nvml, "PynvmlReader", reader)  # noqa: B010 - a class gives way to a function
    if how == "follow":
        return cli.main([log, *options])
    with tempfile.TemporaryDirectory(prefix="cuzktop-demo-") as folder:
        return play(Path(log), options, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
