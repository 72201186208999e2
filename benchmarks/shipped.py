"""Lint the configs that a project ships, as the table of a page of results.

``python -m benchmarks.shipped FOLDER... [-- OPTIONS]`` prints how many files were
checked, and a row for all files that have the same findings. OPTIONS are those of
``fp8tune lint``. Each row is to be explained on the page: why its findings are right.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

SHOWN = 3
"""Most files that a row names."""


def main() -> int:
    """Print the table of the folders on the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.shipped")
    parser.add_argument("folders", nargs="+")
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    folders = parser.parse_args(arguments[:cut]).folders
    print("\n".join(table(linted(folders, arguments[cut + 1 :]), folders[0])))
    return 0


def linted(folders: list[str], options: list[str]) -> dict[str, Any]:
    """What ``fp8tune lint --output-format json`` says of folders."""
    command = [sys.executable, "-m", "fp8tune", "lint", "--output-format", "json"]
    done = subprocess.run(  # noqa: S603
        [*command, *options, *folders], capture_output=True, text=True, check=False
    )
    if done.returncode == 2:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def table(found: dict[str, Any], folder: str) -> Iterator[str]:
    """Yield the lines of the table: findings by rule and key, and the files."""
    by_file: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found["diagnostics"]:
        by_file[os.path.relpath(one["path"], folder)][finding(one)] += 1
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path, counts in sorted(by_file.items()):
        rows[tuple(map(times, *zip(*sorted(counts.items()), strict=True)))].append(path)
    yield f"{found['files']} files, findings in {len(by_file)}"
    yield ""
    yield "| files | findings |"
    yield "|---|---|"
    for findings, paths in sorted(rows.items(), key=lambda row: -len(row[1])):
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        yield f"| {', '.join(paths[:SHOWN])}{more} | {'; '.join(findings)} |"


def finding(one: dict[str, Any]) -> str:
    """A finding in a few words: its severity, rule and key."""
    return f"{one['severity']} `{one['rule']}` of `{one['key']}`"


def times(words: str, count: int) -> str:
    """Words, with how often they apply."""
    return f"{words}, {count} times" if count > 1 else words


if __name__ == "__main__":
    sys.exit(main())
