"""How many small faults in the code the tests find (mutation testing).

A mutant is a module with one small fault: ``<`` for ``<=``, ``or`` for ``and``, 1 for
0, a loop that never runs. cosmic-ray makes the mutants; those that differ only in type
annotations are left out. A sample of them, drawn with a seed, is tested one by one in a
copy of the repository, with the tests that are meant for that code. A mutant that no
test finds has survived. ``--before`` measures the code of revision 05752e7 with its own
tests, so that the shares of survivors before and after a redesign can be compared.
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

from benchmarks import machine
from benchmarks.paths import RESULTS, ROOT, python_path

RECORD = RESULTS / "mutation.json"


class Subject(NamedTuple):
    """Code under test: its modules, and the test files that are meant for it."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


MEMORY_TESTS = (
    "tests/facts/test_peak.py",
    "tests/facts/test_memory.py",
    "tests/facts/test_sizing.py",
    "tests/facts/test_own_steps.py",
    "tests/facts/test_experts.py",
    "tests/facts/test_gaps.py",
    "tests/facts/test_calibration.py",
    "tests/estimate/test_verdicts.py",
    "tests/estimate/test_estimate.py",
    "tests/trainers/kempnerforge/test_lower_bounds.py",
    "tests/facts/test_accuracy.py",
)

SUBJECTS = {
    "expressions": Subject(
        (
            "conditions/expression.py",
            "conditions/python_syntax.py",
        ),
        (
            "tests/conditions/test_expression.py",
            "tests/lint/test_pack_expressions.py",
            "tests/lint/test_rule.py",
            "tests/lint/test_rules.py",
        ),
    ),
    "toml-editor": Subject(
        ("toml/edit.py", "toml/literal.py", "toml/spans.py", "toml/strings.py"),
        (
            "tests/formats/toml/test_edit.py",
            "tests/formats/toml/test_edit_keys.py",
            "tests/formats/toml/test_literal.py",
            "tests/formats/toml/test_strings.py",
            "tests/formats/toml/test_spans.py",
            "tests/formats/toml/test_edit_generated.py",
        ),
    ),
    "statistics": Subject(
        ("search/statistics.py",),
        (
            "tests/search/test_statistics.py",
            "tests/search/test_alike.py",
            "tests/search/test_outcome.py",
        ),
    ),
    "confirmation": Subject(
        ("search/confirm.py", "search/choice.py", "search/history.py"),
        (
            "tests/search/test_confirm.py",
            "tests/search/test_outcome.py",
            "tests/search/test_unfit.py",
            "tests/search/test_statistics.py",
            "tests/search/test_fp8_gain.py",
            "tests/search/test_slow_spell.py",
        ),
    ),
    "peak-memory": Subject(
        (
            "facts/memory/peak.py",
            "facts/memory/instants.py",
            "facts/memory/held.py",
            "facts/memory/fit.py",
        ),
        MEMORY_TESTS,
    ),
}
"""What is measured. The modules are below ``fp8tune/``."""

BEFORE = "05752e7"
"""The last revision before the redesign of the search and its tests."""
SUBJECTS_BEFORE = SUBJECTS | {
    "statistics": Subject(
        ("search/statistics.py",),
        (
            "tests/search/test_statistics.py",
            "tests/search/test_alike.py",
            "tests/search/test_answer.py",
        ),
    ),
    "confirmation": Subject(
        (
            "search/confirm.py",
            "search/answer.py",
            "search/runs.py",
            "search/twins.py",
            "search/eligible.py",
            "search/turning.py",
            "search/drift.py",
        ),
        (
            "tests/search/test_confirm.py",
            "tests/search/test_answer.py",
            "tests/search/test_unfit.py",
            "tests/search/test_statistics.py",
            "tests/search/test_beside_bf16.py",
            "tests/search/test_slow_spell.py",
        ),
    ),
    "peak-memory": Subject(
        (
            "facts/memory.py",
            "facts/peak.py",
            "facts/parts.py",
            "facts/tables.py",
            "facts/backward.py",
        ),
        MEMORY_TESTS,
    ),
}
"""The same code as it was then, where its files had other names."""


class Mutant(NamedTuple):
    """One fault: where it is, what makes it, and the module's text with it."""

    module: str
    operator: str
    line: int
    text: str


def main(arguments: list[str] | None = None) -> int:
    """Test a sample of mutants of each subject and print how many survive."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("subjects", nargs="*", choices=[[], *SUBJECTS], help="all")
    parser.add_argument("--count", type=int, default=100, help="mutants of a subject")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--before", action="store_true", help=f"measure {BEFORE}")
    parser.add_argument("--record", action="store_true", help=f"in {RECORD.name}")
    options = parser.parse_args(arguments)
    subjects = SUBJECTS_BEFORE if options.before else SUBJECTS
    when = "before" if options.before else "after"
    for name in options.subjects or subjects:
        row = measure(name, subjects[name], options)
        print(json.dumps({name: row}, indent=1), flush=True)
        if options.record:
            _record(when, name, row)
    return 0


def sample(folder: Path, subject: Subject, count: int, seed: int) -> list[Mutant]:
    """Draw mutants of a subject's modules, the same ones for the same seed."""
    places = []
    for module in subject.modules:
        text = (folder / "fp8tune" / module).read_text(encoding="utf-8")
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


def measure(name: str, subject: Subject, options: argparse.Namespace) -> dict[str, Any]:
    """Test each mutant; the tests must pass on the code as it is."""
    survived = []
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary)
        _copy(copy, BEFORE if options.before else None)
        mutants = sample(copy, subject, options.count, options.seed)
        tests = list(subject.tests)
        started = time.monotonic()
        if _run(copy, tests, 3600) != 0:
            raise SystemExit(f"{name}: the tests fail without a mutant")
        limit = 30 + 10 * (time.monotonic() - started)
        for count, mutant in enumerate(mutants, 1):
            if _survives(copy, mutant, tests, limit):
                survived.append(f"{mutant.module}:{mutant.line} {mutant.operator}")
            print(
                f"\r{name} {count}, {len(survived)} survived", end="", file=sys.stderr
            )
    print(file=sys.stderr)
    return {
        "revision": BEFORE if options.before else "the working tree",
        "modules": subject.modules,
        "tests": subject.tests,
        "seed": options.seed,
        "mutants": len(mutants),
        "survived": len(survived),
        "percent": round(100 * len(survived) / len(mutants), 1),
        "survivors": sorted(survived),
    }


def _copy(folder: Path, revision: str | None) -> None:
    """Copy a revision, or the working tree where none is named."""
    if revision:
        packed = str(folder / "revision.tar")
        _output(["git", "archive", "--output", packed, revision], ROOT)
        _output(["tar", "-xf", packed], folder)
        return
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in _output(listed, ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def _output(command: list[str], folder: Path) -> str:
    return subprocess.check_output(command, cwd=folder, text=True)  # noqa: S603


def _survives(copy: Path, mutant: Mutant, tests: list[str], limit: float) -> bool:
    path = copy / "fp8tune" / mutant.module
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


def _record(when: str, name: str, row: dict[str, Any]) -> None:
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    recorded["machine"] = machine.describe()
    recorded.setdefault("subjects", {}).setdefault(name, {})[when] = row
    RECORD.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
