"""A machine's /proc made of plain files and links, on which tests start daemons."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cuzktop.sources.discovery import ProcReader

BOOT_S = 1_773_000_000
TICKS = os.sysconf("SC_CLK_TCK")
STARTED_MS = 1000.0 * (BOOT_S + 3600)
READ, WRITE, APPEND = os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_APPEND
SYSTEM_UNIT = "/system.slice/cuzk.service"
SHELL = "/user.slice/user-1000.slice/session-3.scope"


class Machine:
    """`start` puts a process there; what it is given is what /proc then says of it."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.proc.mkdir()
        (self.proc / "stat").write_text(f"cpu  1 2 3\nbtime {BOOT_S}\nprocesses 9\n")
        self.reader = ProcReader(self.proc)
        self.reader.as_root = False
        self._namespaces("self", {})

    def start(
        self,
        pid: int,
        name: str = "cuzk",
        *,
        fds: Mapping[int, str | Path | tuple[str | Path, int] | tuple[str | Path, int, int]],
        command: tuple[str, ...] | None = None,
        cgroup: str = SHELL,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        state: str = "S",
        namespaces: Mapping[str, str] | None = None,
        root: Path = Path("/"),
    ) -> None:
        """Start a process; a descriptor is a target, or (target, open flags, offset)."""
        home = self.proc / str(pid)
        (home / "fd").mkdir(parents=True)
        (home / "fdinfo").mkdir()
        (home / "comm").write_text(name[:15] + "\n")
        words = (name, "--log-level", "info") if command is None else command
        (home / "cmdline").write_text("".join(f"{word}\0" for word in words))
        (home / "stat").write_text(f"{pid} ({name}) {state} {'0 ' * 18}{3600 * TICKS} 0")
        (home / "cgroup").write_text(f"12:cpu:/other\n0::{cgroup}\n")
        (home / "environ").write_text(
            "".join(f"{key}={value}\0" for key, value in (environ or {}).items())
        )
        (home / "cwd").symlink_to(cwd or self.proc.parent)
        (home / "root").symlink_to(root)
        self._namespaces(str(pid), namespaces or {})
        for fd, entry in fds.items():
            target, flags, offset = (
                entry
                if isinstance(entry, tuple) and len(entry) == 3
                else (
                    (*entry, 0)
                    if isinstance(entry, tuple)
                    else (entry, READ if fd == 0 else APPEND, 0)
                )
            )
            self.point(pid, fd, target)
            (home / "fdinfo" / str(fd)).write_text(
                f"pos:\t{offset}\nflags:\t0{flags:o}\nmnt_id:\t1\n"
            )

    def point(self, pid: int, fd: int, target: str | Path) -> None:
        """Make a descriptor point somewhere."""
        link = self.proc / str(pid) / "fd" / str(fd)
        link.unlink(missing_ok=True)
        link.symlink_to(target)

    def _namespaces(self, pid: str, named: Mapping[str, str]) -> None:
        folder = self.proc / pid / "ns"
        folder.mkdir(parents=True)
        for kind in ("net", "mnt"):
            (folder / kind).symlink_to(named.get(kind, f"{kind}:[4026531840]"))
