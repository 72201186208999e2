"""How many small faults in the code the tests find (mutation testing).

A mutant is a module with one small fault: ``<`` for ``<=``, ``or`` for ``and``, 1 for
0, a loop that never runs. cosmic-ray makes the mutants; those that differ only in type
annotations are left out. A sample of them, drawn with a seed, is tested one by one in a
copy of the repository, with the tests that are meant for that code. A mutant that no
test finds has survived. ``python -m benchmarks.mutation fp8tune/facts/memory/peak.py
--tests tests/facts/test_peak.py`` prints those.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.paths import ROOT, python_path


class Mutant(NamedTuple):
    """One fault: where it is, what makes it, and the module's text with it."""

    module: str
    operator: str
    line: int
    text: str


def main(arguments: list[str] | None = None) -> int:
    """Test a sample of mutants of some modules and print which survive."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("modules", nargs="+", help="paths from the repository's root")
    parser.add_argument("--tests", nargs="+", required=True, help="their tests")
    parser.add_argument("--count", type=int, default=100, help="mutants")
    parser.add_argument("--seed", type=int, default=1)
    print(json.dumps(measure(parser.parse_args(arguments)), indent=1))
    return 0


def sample(folder: Path, modules: list[str], count: int, seed: int) -> list[Mutant]:
    """Draw mutants of modules, the same ones for the same seed."""
    places = []
    for module in modules:
        text = (folder / module).read_text(encoding="utf-8")
        places += [(module, text, *place) for place in _places(text)]
    random.Random(seed).shuffle(places)  # noqa: S311
    mutants: dict[str, Mutant] = {}
    for module, text, operator, occurrence, line in places:
        mutated = _mutated(text, operator, occurrence)
        meaning = _meaning(mutated)
        if meaning not in (None, _meaning(text)):  # it runs, and does something else
            mutants.setdefault(meaning, Mutant(module, operator, line, mutated))
        if len(mutants) == count:
            break
    return list(mutants.values())


def _places(text: str) -> Iterator[tuple[str, int, int]]:
    """Every operator that applies, with its occurrence and its line."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast(text)))
    for name in sorted(operator_names()):
        kind = get_operator(name)
        if not kind.arguments():
            positions = [p for node in nodes for p in kind().mutation_positions(node)]
            for occurrence, (start, _) in enumerate(positions):
                yield name, occurrence, start[0]


def _mutated(text: str, operator: str, occurrence: int) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    return str(mutate_code(text, get_operator(operator)(), occurrence))


def _meaning(text: str) -> str | None:
    """The program that a text is, without its type annotations.

    None for a text that Python refuses or warns of: every test would find that.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile(text, "mutant", "exec")
    except (SyntaxError, SyntaxWarning):
        return None
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Test each mutant; the tests must pass on the code as it is."""
    survived = []
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary)
        _copy(copy)
        mutants = sample(copy, options.modules, options.count, options.seed)
        started = time.monotonic()
        if _run(copy, options.tests, 3600) != 0:
            raise SystemExit("the tests fail without a mutant")
        limit = 30 + 10 * (time.monotonic() - started)
        for count, mutant in enumerate(mutants, 1):
            if _survives(copy, mutant, options.tests, limit):
                survived.append(f"{mutant.module}:{mutant.line} {mutant.operator}")
            print(f"\r{count}, {len(survived)} survived", end="", file=sys.stderr)
    print(file=sys.stderr)
    return {
        "mutants": len(mutants),
        "percent": round(100 * len(survived) / len(mutants), 1),
        "survived": sorted(survived),
    }


def _copy(folder: Path) -> None:
    """Copy the working tree."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in _output(listed, ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def _output(command: list[str], folder: Path) -> str:
    return subprocess.check_output(command, cwd=folder, text=True)  # noqa: S603


def _survives(copy: Path, mutant: Mutant, tests: list[str], limit: float) -> bool:
    path = copy / mutant.module
    original = path.read_text(encoding="utf-8")
    path.write_text(mutant.text, encoding="utf-8")
    try:
        return _run(copy, tests, limit) == 0
    finally:
        path.write_text(original, encoding="utf-8")


def _run(copy: Path, tests: list[str], limit: float) -> int:
    """Run the tests in a copy; return pytest's exit code, -1 after ``limit`` s."""
    quiet = ["-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:cov"]
    command = [sys.executable, "-m", "pytest", *quiet, "--hypothesis-seed=1", *tests]
    env = {
        **os.environ,
        "PYTHONPATH": python_path(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with subprocess.Popen(  # noqa: S603 - the command is ours
        command,
        cwd=copy,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return -1


if __name__ == "__main__":
    sys.exit(main())
