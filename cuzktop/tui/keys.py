"""Every key and what it does: the one list that bindings, footer, help, palette and README use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One action. `keys` are Textual's names; `shown` is what stands on the keyboard.

    `footer` is the word in the footer, empty if it isn't listed there; `title` and `says` are
    the palette's entry and the help's line.
    """

    keys: str
    shown: str
    action: str
    title: str
    says: str
    footer: str = ""


KEYS: tuple[Key, ...] = (
    Key(
        "q,ctrl+c",
        "q  Ctrl-C",
        "quit",
        "Quit",
        "leave; the daemon is never touched",
        "quit",
    ),
    Key("question_mark", "?", "help", "Help", "this list", "help"),
    Key(
        "space,p,Z", "Space  p  Z", "pause", "Pause", "freeze the picture; reading goes on", "pause"
    ),
    Key(
        "colon,ctrl+p",
        ":  Ctrl-P",
        "command_palette",
        "Commands",
        "find an action by its name",
        "menu",
    ),
    Key("plus", "+", "slower", "Longer interval", "draw less often", ""),
    Key("minus", "-", "faster", "Shorter interval", "draw more often", ""),
    Key("tab", "Tab", "focus_next", "Next panel", "from the table to the verdict and the alerts"),
    Key("escape", "Esc", "let_go", "Back", "close a window; let go of the selected row"),
    Key("down,j", "j  Down", "row_down", "Next row", "select the next partition"),
    Key("up,k", "k  Up", "row_up", "Previous row", "select the partition before"),
    Key("g,home", "g  Home", "row_first", "First row", "select the newest partition"),
    Key("G,end", "G  End", "row_last", "Last row", "select the oldest partition"),
    Key(
        "enter",
        "Enter",
        "details",
        "Details",
        "all about the selected partition, the verdict or the alerts",
    ),
)


def markdown_table() -> str:
    """The keys as the README shows them."""
    rows = [f"| `{'` `'.join(key.shown.split())}` | {key.says} |" for key in KEYS]
    return "\n".join(["| key | does |", "|---|---|", *rows])
