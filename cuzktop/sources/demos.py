"""The demos that come with the program: canned logs and recordings.

A demo is a folder `demo_logs/NAME/` with `daemon.log` (or `daemon.log.gz`), `about.txt`, whose
first line says what it shows and whose others are `start=SECONDS` (where live playing begins)
and `utc=1`, and perhaps `gpu.csv`, what nvidia-smi saw at the time. In place of both it may have
a `recording` (or `recording.gz`).
"""

from __future__ import annotations

from pathlib import Path

from cuzktop.dataclass import dataclass
from cuzktop.errors import UsageError

DEFAULT_DEMO = "ninety-percent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """A demo's files. `start_s` counts from the log's first line that has a time."""

    name: str
    about: str
    log: Path
    gpu_csv: Path | None
    start_s: float | None
    utc: bool  # the clock of gpu.csv


def demos_root() -> Path:
    """Where the demos lie: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "demo_logs"
    return installed if installed.is_dir() else package.parent / "demo_logs"


def demo_names() -> tuple[str, ...]:
    """The demos there are, the default one first."""
    try:
        names = sorted(about.parent.name for about in demos_root().glob("*/about.txt"))
    except OSError:
        return ()
    return tuple(sorted(names, key=lambda name: name != DEFAULT_DEMO))


def demo_folder(name: str) -> Path:
    """The folder of demo `name`. Raises UsageError that lists the names if there is none."""
    names = demo_names()
    if name not in names:
        message = f"there is no demo {name!r}"
        hint = f"choose one of {', '.join(names)}" if names else "no demos are installed"
        raise UsageError(message, hint=hint)
    return demos_root() / name


def demo(name: str = DEFAULT_DEMO) -> Demo:
    """Demo `name`. Raises UsageError if there is none."""
    folder = demo_folder(name)
    about, *rest = (folder / "about.txt").read_text("utf-8").splitlines() or [""]
    options = dict(line.split("=", 1) for line in rest if "=" in line)
    start = options.get("start")
    return Demo(
        name=name,
        about=about,
        log=_first_of(folder, "daemon.log", "daemon.log.gz", "recording", "recording.gz")
        or folder / "daemon.log",
        gpu_csv=_first_of(folder, "gpu.csv", "gpu.csv.gz"),
        start_s=None if start is None else float(start),
        utc=options.get("utc") == "1",
    )


def _first_of(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)
