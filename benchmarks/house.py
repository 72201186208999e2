"""How large the code is, and in how many places one idea lives, beside the targets.

Each row is computed from the tree. What can only be found by reading is counted by a
definition: the description of its function. ``--no-lint`` leaves out the last row, for
which a wheel is built and installed.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from benchmarks.lint_speed import ESTIMATED, install
from benchmarks.machine import table
from benchmarks.paths import ROOT

DECIDING = {"decide", "with_config", "choose", "compare_fp8"}
WORDING = {"message", "describe"}
"""Functions that decide an answer, and those that give its sentences."""

IMPORTED = """
import sys
from fp8tune.program import main
try:
    main(["lint", sys.argv[1]])
except SystemExit:
    pass
ours = [name for name in sys.modules if name.partition(".")[0] == "fp8tune"]
print(len([name for name in ours if "._index" not in name]))
"""
"""Prints how many modules lint has imported, without those that only a wheel has."""


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser("benchmarks.house", description=__doc__)
    parser.add_argument("--no-lint", action="store_true", help="leave out the last row")
    options = parser.parse_args(arguments)
    rooms = [f"fp8tune/{room}" for room in ("search", "report", "trials", "runners")]
    rows = [
        ("fp8tune/, lines of Python", lines("fp8tune"), 69_000),
        ("search, report, trials, runners", lines(*rooms), 17_500),
        ("schemas of trainers (`schema*.toml`)", schemas(), 5_700),
        ("tests", lines("tests"), 50_000),
        ("benchmarks and tools", lines("benchmarks", "tools"), 18_500),
        ("readers of a config", len(readers()), 1),
        ("dialects of refusals", len(dialects()), 1),
        ("modules that decide or word an answer", len(answering()), 8),
        ("modules outside trainers/ and facts/ with `micro_batch`", len(fields()), 13),
    ]
    if not options.no_lint:
        rows.append(("modules imported by `lint` of a clean config", imported(), 80))
    shown = [(name, f"{now:,}", f"{most:,}") for name, now, most in rows]
    print(table(shown, ("", "now", "at most")))
    return 0


@cache
def modules(folder: str) -> tuple[Path, ...]:
    """Return the Python files below a folder of the repository."""
    return tuple(sorted((ROOT / folder).rglob("*.py")))


def lines(*folders: str) -> int:
    """Return the lines of Python below folders, as ``wc -l`` counts them."""
    files = (path for folder in folders for path in modules(folder))
    return sum(path.read_bytes().count(b"\n") for path in files)


def schemas() -> int:
    """Return the lines of what trainers accept."""
    files = (ROOT / "fp8tune" / "trainers").rglob("schema*.toml")
    return sum(path.read_bytes().count(b"\n") for path in files)


def readers() -> list[Path]:
    """Modules that parse a file and load it by its trainer, besides these two."""
    return [
        path
        for path in _of_fp8tune("formats", "trainers")
        if ("fp8tune.formats", "parse") in imports(path) and "load" in _called(path)
    ]


def dialects() -> set[str]:
    """Trainers with Python that says which values do not fit together, and the data."""
    trainers = ROOT / "fp8tune" / "trainers"
    names = {path.parent.name for path in trainers.glob("*/*check*.py")}
    return names | {"data" for _ in trainers.glob("*/checks.toml")}


def answering() -> list[Path]:
    """The modules of search/answer, and those that call what decides or words it."""
    answer = ROOT / "fp8tune" / "search" / "answer"
    names = DECIDING | WORDING
    return [
        path
        for path in (*modules("fp8tune/search"), *modules("fp8tune/report"))
        if path.name != "__init__.py"
        if path.parent == answer
        or any(
            module.startswith("fp8tune.search.answer") and name in names
            for module, name in imports(path)
        )
    ]


def fields() -> list[Path]:
    """Modules that spell one field of the job, outside of what defines such fields."""
    others = _of_fp8tune("trainers", "facts")
    word = re.compile(r"\bmicro_batch\b")
    return [path for path in others if word.search(path.read_text("utf-8"))]


def imported() -> int:
    """Return how many modules lint of a clean config imports, run from a wheel."""
    with tempfile.TemporaryDirectory() as folder:
        config = shutil.copy(
            ESTIMATED, folder
        )  # away from the settings of this project
        command = [str(install(Path(folder)) / "python"), "-Ic", IMPORTED, config]
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, cwd=folder, check=True
        )
    return int(done.stdout.split()[-1])


def imports(path: Path) -> set[tuple[str, str]]:
    """Return the modules and names that a module imports from."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    found = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return {(node.module or "", each.name) for node in found for each in node.names}


def _called(path: Path) -> set[str]:
    """Return the names of the methods that a module calls."""
    nodes: Iterable[ast.AST] = ast.walk(ast.parse(path.read_text("utf-8")))
    calls = (node.func for node in nodes if isinstance(node, ast.Call))
    return {call.attr for call in calls if isinstance(call, ast.Attribute)}


def _of_fp8tune(*without: str) -> Iterator[Path]:
    package = ROOT / "fp8tune"
    for path in modules("fp8tune"):
        if path.relative_to(package).parts[0] not in without:
            yield path


if __name__ == "__main__":
    sys.exit(main())
