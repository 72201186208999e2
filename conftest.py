"""Marks of tests, by what their module needs and by how long it takes.

``pytest -m 'not slow'`` is the quick check.
"""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
NEEDS = {
    "torch": re.compile(r"importorskip\(\"torch|import torch|runners\.builtin"),
    "process": re.compile(r"subprocess|Popen|multiprocessing|os\.fork|in_session"),
}
"""What in a test module says that it needs torch, or starts processes."""

SLOW = (
    "benchmarks",
    *("tests/cluster", "tests/evidence", "tests/packaging", "tests/runners"),
    *("tests/commands/test_compare_runs.py", "tests/commands/test_rules.py"),
    *("tests/commands/test_schema.py", "tests/commands/test_studies.py"),
    *(f"tests/formats/{form}/test_edit_generated.py" for form in ("toml", "yaml")),
    *("tests/formats/toml/test_large.py", "tests/lint/formats/test_hostile.py"),
    *("tests/lint/bad_input", "tests/lint/test_index.py", "tests/lsp"),
    *("tests/lint/test_rule_fixes.py", "tests/trainers/test_json_schema.py"),
    *("tests/verify/test_gallery.py", "tests/verify/test_gap_fuzz.py"),
    *("tests/search/losses/test_replayed.py", "tests/search/losses/test_stage.py"),
    *("tests/search/test_bad_input.py", "tests/search/test_command.py"),
    *("tests/search/test_faults.py", "tests/search/test_local_workers.py"),
    *("tests/search/test_resuming.py", "tests/search/test_search_command.py"),
    *("tests/search/test_stopping.py", "tests/search/test_strategy.py"),
    "tests/search/test_study.py",
    *("tests/phases/test_files.py", "tests/report/test_plots.py"),
    "tests/verify/test_cause_files.py",
    "tests/search/test_written.py",
    *("tests/test_docs.py", "tests/test_readme.py", "tests/test_streams.py"),
    *("tests/trainers/test_verdicts.py", "tests/trainers/torchtitan/test_mixed.py"),
    "tests/trainers/kempnerforge/test_verdicts.py",
)
"""Folders and modules of more than some seconds, most of them whole commands."""


@cache
def marks(path: Path) -> tuple[str, ...]:
    """Return the marks of a module's tests."""
    text = path.read_text(encoding="utf-8")
    found = [name for name, said in NEEDS.items() if said.search(text)]
    name = path.relative_to(ROOT).as_posix()
    slow = any(name == each or name.startswith(f"{each}/") for each in SLOW)
    return (*found, *["slow"] * (slow or "torch" in found))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests; a place in ``SLOW`` that is gone is an error."""
    gone = [name for name in SLOW if not (ROOT / name).exists()]
    assert not gone, f"conftest.py marks what is not there: {gone}"
    for item in items:
        for name in marks(item.path):
            item.add_marker(name)
