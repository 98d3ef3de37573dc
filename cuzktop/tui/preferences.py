"""What the user wants to find again next time: a small file in their configuration folder.

`settings.toml` is read at the start and written when the user asks for it, never else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cuzktop.dataclass import dataclass
from cuzktop.tui.keys import VIEWS

FILE = "settings.toml"
MOST_BYTES = 64 * 1024  # ours has two hundred
INTERVALS_S = (0.1, 86_400.0)  # as the command line takes them
HEAD = "# cuzktop, written by the key W; delete it to begin anew\n"
_VIEW_NAMES = tuple(name for name, _title, _says in VIEWS)
_NAME = re.compile(r"[a-z0-9_-]{1,40}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What is kept. None leaves the choice to the program or to the command line."""

    interval_s: float | None = None
    theme: str | None = None
    view: str | None = None
    sort: str | None = None
    reverse: bool = False


def user_file() -> Path:
    """Where the file lies: under `XDG_CONFIG_HOME`, or `~/.config`."""
    from platformdirs import user_config_path  # noqa: PLC0415 (Textual's own; only when asked)

    return user_config_path("cuzktop", appauthor=False) / FILE


def load(path: Path) -> tuple[Preferences, str]:
    """What the file at `path` holds, and why it was ignored (empty if it wasn't).

    A file that isn't there is no fault.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return Preferences(), ""
    except OSError as error:
        return Preferences(), f"{path}: can't be read ({error.strerror or error}), ignored"
    import tomllib  # noqa: PLC0415 (only for those who have a file)

    try:
        if len(raw) > MOST_BYTES:
            return Preferences(), f"{path}: too large for settings, ignored"
        found = tomllib.loads(raw.decode("utf-8"))
        return _checked(found), ""
    except ValueError as error:
        what = str(error).splitlines()[0] if str(error) else "malformed"
        return Preferences(), f"{path}: ignored: {what}; W writes it anew"


def _checked(found: Mapping[str, object]) -> Preferences:
    """The preferences in a parsed file; names that we don't know are left alone.

    Raises:
        ValueError: a value of the wrong kind.
    """
    interval = found.get("interval_s")
    if interval is not None and (
        isinstance(interval, bool)
        or not isinstance(interval, int | float)
        or not INTERVALS_S[0] <= interval <= INTERVALS_S[1]
    ):
        message = f"interval_s = {interval!r} is no number of seconds"
        raise ValueError(message)
    view = found.get("view")
    if view is not None and view not in _VIEW_NAMES:
        message = f"view = {view!r} is none of {', '.join(_VIEW_NAMES)}"
        raise ValueError(message)
    reverse = found.get("reverse", False)
    if not isinstance(reverse, bool):
        message = f"reverse = {reverse!r} is neither true nor false"
        raise ValueError(message)  # noqa: TRY004 - one kind of error for the whole file
    return Preferences(
        interval_s=None if interval is None else float(interval),
        theme=_name(found, "theme"),
        view=view if isinstance(view, str) else None,
        sort=_name(found, "sort"),
        reverse=reverse,
    )


def _name(found: Mapping[str, object], key: str) -> str | None:
    value = found.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not _NAME.match(value):
        message = f"{key} = {value!r} is no name"
        raise ValueError(message)
    return value


def save(path: Path, preferences: Preferences) -> None:
    """Write the file and the folder it lies in.

    Raises:
        OSError: it can't be written.
    """
    import json  # noqa: PLC0415 (only for those who ask)

    lines = [HEAD]
    for name in ("interval_s", "theme", "view", "sort"):
        value = getattr(preferences, name)
        if value is not None:
            # A JSON string or number is a TOML one.
            lines.append(f"{name} = {json.dumps(value)}\n")
    lines.append(f"reverse = {json.dumps(preferences.reverse)}\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text("".join(lines), encoding="utf-8")
    draft.replace(path)
