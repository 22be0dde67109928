"""What a bench found, printed, and with ``--write`` kept in ``docs/benchmarks.md``.

The page is never written by hand: each bench replaces its own section of it.
"""

import argparse
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"

# In the order of the page; the names are those of the modules.
SECTIONS = ("gateway", "holds", "demand", "coldstart", "soak", "fetch", "sync")
_INTRODUCTION = """# Benchmarks

Written by the benches (`python -m bench --write`), not by hand. Each figure is to be read beside
its peer in the same run: the same machine, in the same minutes. Ratios are medians over rounds of
a ratio within one round.
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A figure and the most or the least that it may be, of which one is given; ``stretch`` is a
    smaller most that would be better still."""

    what: str
    measured: float
    at_most: float | None = None
    at_least: float | None = None
    unit: str = ""
    stretch: float | None = None

    @property
    def held(self) -> bool:
        low = self.measured if self.at_least is None else self.at_least
        high = self.measured if self.at_most is None else self.at_most
        return low <= self.measured <= high

    def row(self) -> tuple[str, str, str, str]:
        sign, bound = ("≥", self.at_least) if self.at_most is None else ("≤", self.at_most)
        assert bound is not None, self.what
        limit = f"{sign} {_figure(bound)}{self.unit}"
        if self.stretch is not None:
            limit += f", stretch {_figure(self.stretch)}{self.unit}"
        verdict = "held" if self.held else "**missed**"
        if self.stretch is not None and self.measured <= self.stretch:
            verdict = "held, stretch too"
        return self.what, f"{_figure(self.measured)}{self.unit}", limit, verdict


@dataclass(frozen=True, kw_only=True)
class Section:
    """``how``: rounds, versions and whatever else the figures depend on, in a sentence or two."""

    name: str
    title: str
    how: str
    table: Sequence[Sequence[str]] = ()  # The first row is its head.
    targets: Sequence[Target] = ()
    notes: Sequence[str] = field(default=())

    def text(self) -> str:
        parts = [f"## {self.title}", f"{self.how}\n\n{_machine()}."]
        if self.table:
            parts.append(_table(self.table))
        if self.targets:
            head = ("", "measured", "target", "")
            parts.append(_table([head, *(target.row() for target in self.targets)]))
        parts += self.notes
        return "\n\n".join(parts)


def flags(module: str, about: str | None) -> argparse.ArgumentParser:
    """With what every bench takes."""
    about = (about or "").partition(":")[0]
    parser = argparse.ArgumentParser(prog=f"python -m bench.{module}", description=f"{about}.")
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {PAGE.name}")
    return parser


def publish(section: Section, *, write: bool) -> int:
    """Print it, and keep it where ``write`` is true; the exit code: 1 where a target was missed."""
    print(section.text(), flush=True)
    if write:
        PAGE.write_text(replaced(PAGE.read_text() if PAGE.exists() else "", section))
    return 0 if all(target.held for target in section.targets) else 1


def replaced(page: str, section: Section) -> str:
    """The page with this section in its place."""
    found = {name: text for name, text in re.findall(_BLOCK, page, re.S)}
    found[section.name] = section.text()
    blocks = [
        f"<!-- bench.{name} -->\n{found[name]}\n<!-- end -->\n"
        for name in SECTIONS
        if name in found
    ]
    return "\n".join([_INTRODUCTION, *blocks])


_BLOCK = r"<!-- bench\.(\w+) -->\n(.*?)\n<!-- end -->"


def _machine() -> str:
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.+)$", info, re.M)
    cores = len(os.sched_getaffinity(0))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    kernel = ".".join(platform.release().split(".")[:2])
    return (
        f"{cores} cores of {model[1] if model else platform.machine()}, Linux {kernel}, "
        f"Python {platform.python_version()}, commit {commit.stdout.strip() or 'unknown'}"
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Columns of one width each, so that it can be read before it is rendered; the first column
    leans left and figures right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(f"| {' | '.join([row[0].ljust(widths[0]), *cells[1:]])} |")
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([lines[0], f"| {' | '.join(rule)} |", *lines[1:]])


def _figure(value: float) -> str:
    """Three digits that say something, and no exponent."""
    if value == 0:
        return "0"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
