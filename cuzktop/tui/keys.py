"""Every key and what it does: the one list that bindings, footer, help, palette and README use."""

from __future__ import annotations

from cuzktop.dataclass import dataclass

VIEWS: tuple[tuple[str, str, str], ...] = (
    ("overview", "Overview", "the whole box on one page"),
    ("partitions", "Partitions", "where each partition's time went"),
    ("timeline", "Timeline", "what held when, on one axis of time"),
    ("jobs", "Jobs", "how far each proof is"),
    ("log", "Log", "the daemon's own lines"),
    ("diagnosis", "Diagnosis", "the verdict with all its reasons"),
)
"""The six views: id, name, what it shows. The key of each is its place in this list, from 1."""


@dataclass(frozen=True, slots=True)
class Key:
    """One action. `keys` are Textual's names; `shown` is what stands on the keyboard.

    `footer` is the word in the footer, empty if it isn't listed there; `title` and `says` are
    the palette's entry and the help's line. `views` are the numbers of the views that have the
    action, empty for an action of the whole program.
    """

    keys: str
    shown: str
    action: str
    title: str
    says: str
    footer: str = ""
    views: str = ""

    @property
    def where(self) -> str:
        """The views that have the action, in words; empty where all have."""
        return "" if self.views in {"", "123456"} else f"in {' '.join(self.views)}"

    @property
    def help(self) -> str:
        """The help's line: what it does, and where."""
        return f"{self.says} ({self.where})" if self.where else self.says


KEYS: tuple[Key, ...] = (
    Key(
        "q,ctrl+c",
        "q  Ctrl-C",
        "quit",
        "Quit",
        "leave; the daemon is never touched",
        "quit",
    ),
    Key(
        "ctrl+z", "Ctrl-Z", "suspend_process", "Suspend", "stop for a while; the shell's fg goes on"
    ),
    Key("question_mark", "?", "help", "Help", "this list", "help"),
    *(
        Key(str(number), str(number), f"view_{name}", f"{number} {title}", f"view: {says}")
        for number, (name, title, says) in enumerate(VIEWS, 1)
    ),
    Key(
        "space,p,Z",
        "Space  p  Z",
        "pause",
        "Pause",
        "freeze the picture (reading goes on), or what is played",
        "pause",
    ),
    Key("R", "R", "record", "Record", "record log and readings to a file; again: end it"),
    Key("comma", ",", "play_back", "Ten seconds back", "ten seconds back in what is played"),
    Key("full_stop", ".", "play_on", "Ten seconds on", "ten seconds on in what is played"),
    Key("at", "@", "play_at", "Go to a time", "go to a time in what is played: 90, 14:30:05"),
    Key("left_curly_bracket", "{", "play_slower", "Play slower", "play at a lower speed"),
    Key("right_curly_bracket", "}", "play_faster", "Play faster", "play at a higher speed"),
    Key(
        "colon,ctrl+p",
        ":  Ctrl-P",
        "command_palette",
        "Commands",
        "find an action by its name",
        "menu",
    ),
    Key("plus", "+", "slower", "Longer interval", "draw less often"),
    Key("minus", "-", "faster", "Shorter interval", "draw more often"),
    Key("tab", "Tab", "focus_next", "Next panel", "from the table to the verdict and the alerts"),
    Key(
        "escape",
        "Esc",
        "let_go",
        "Back",
        "close a window; let go of the selected row",
        "",
        "123456",
    ),
    Key("down,j", "j  Down", "row_down", "Next row", "the next row", "", "123456"),
    Key("up,k", "k  Up", "row_up", "Previous row", "the row before", "", "123456"),
    Key(
        "g,home",
        "g  Home",
        "row_first",
        "First row",
        "the first row, or the beginning",
        "",
        "123456",
    ),
    Key("G,end", "G  End", "row_last", "Last row", "the last row; follow what comes", "", "123456"),
    Key("pagedown", "PgDn", "page_down", "Page down", "a page down", "", "123456"),
    Key("pageup", "PgUp", "page_up", "Page up", "a page up", "", "123456"),
    Key(
        "enter",
        "Enter",
        "details",
        "Details",
        "all about what is selected",
        "",
        "123456",
    ),
    Key("y", "y", "copy", "Copy", "copy the selected row to the clipboard (OSC 52)", "", "123456"),
    Key("T", "T", "next_theme", "Next theme", "dark, light, or sixteen colours"),
    Key("W", "W", "write", "Write settings", "keep interval, theme, view and sort for next time"),
    Key("s", "s", "next_slow", "Next slow partition", "next slow partition", "slow", "123"),
    Key("S", "S", "previous_slow", "Previous slow partition", "the slow one before", "", "123"),
    Key("e", "e", "next_failure", "Next failure", "next failure", "failure", "12345"),
    Key("E", "E", "previous_failure", "Previous failure", "the failure before", "", "12345"),
    Key("i", "i", "next_stall", "Next stall", "next stall: a lock free for 2 s", "stall", "3"),
    Key("I", "I", "previous_stall", "Previous stall", "the stall before", "", "3"),
    Key("slash", "/", "search", "Search", "find words as you type", "search", "245"),
    Key("n", "n", "next_match", "Next match", "the next one found", "", "245"),
    Key("N", "N", "previous_match", "Previous match", "the one found before", "", "245"),
    Key(
        "backslash",
        "\\",
        "filter",
        "Filter",
        "show only what fits: kind:snap state:failed job:abc",
        "filter",
        "2",
    ),
    Key(
        "less_than_sign",
        "<",
        "sort_left",
        "Sort by the column before",
        "sort by the column before",
        "",
        "2",
    ),
    Key(
        "greater_than_sign",
        ">",
        "sort_right",
        "Sort by the next column",
        "sort by the next column",
        "sort",
        "2",
    ),
    Key("r", "r", "reverse", "Reverse", "turn the order round", "", "2"),
    Key("b", "b", "bar", "Bar", "the bar: bracket, or synthesis and queue too", "", "2"),
    Key("left,h", "h  Left", "left", "Left", "earlier, the cell before, further left", "", "345"),
    Key(
        "right,l",
        "l  Right",
        "right",
        "Right",
        "later, the next cell, further right",
        "",
        "345",
    ),
    Key("left_square_bracket", "[", "zoom_out", "Zoom out", "more time on the axis", "out", "3"),
    Key("right_square_bracket", "]", "zoom_in", "Zoom in", "less time on the axis", "in", "3"),
    Key("L", "L", "level", "Level", "all lines, or info, warn, error and up", "level", "5"),
    Key("t", "t", "noise", "Timing lines", "hide TIMELINE and CUZK lines", "timing", "5"),
    Key("f", "f", "only_job", "One job", "only lines of the selected job", "job", "5"),
)


def markdown_table() -> str:
    """The keys as the README shows them."""
    rows = [
        f"| {' '.join(_code(word) for word in key.shown.split())} | {key.help} |" for key in KEYS
    ]
    return "\n".join(["| key | does |", "|---|---|", *rows])


def _code(word: str) -> str:
    return f"`{word}`"
