"""Adding a rule touches one file.

Clones the repository as it is committed into a temporary folder, adds one rule file
there, runs the rule's own examples beside all others, lists the rule, lints with it,
and counts what git says was touched. Exit code 0: one file, and it all worked.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.process import ROOT, Finished, must, run

NAME = "compile-for-few-steps"
PLACE = f"rules/slow/{NAME}.toml"
RULE = f'''name = "{NAME}"
code = "FP8499"
summary = "torch.compile for a run of a few steps"
severity = "note"
confidence = "medium"
since = "0.1.0"
when = "compile and max_steps < 10"
message = "compiling takes longer than {{max_steps}} steps"
help = "set `{{key(compile)}} = false` for a run this short"
why = "The first step waits for the compiler, and no later step earns that back."
references = ["https://docs.pytorch.org/docs/stable/generated/torch.compile.html"]

[[at]]
key = ["max_steps", "compile"]
label = "over before compiling pays"

[[bad]]
config = """
[train]
max_steps = \u00ab5\u00bb
[scheduler]
warmup_steps = 0
"""

[[good]]
config = """
[train]
max_steps = 5
compile_model = false
[scheduler]
warmup_steps = 0
"""
'''
CONFIG = "[train]\nmax_steps = 5\n[scheduler]\nwarmup_steps = 0\n"


def main(arguments: list[str] | None = None) -> int:
    """Add the rule to a clone and print what that took."""
    parser = argparse.ArgumentParser(prog="rule_cost", description=__doc__)
    parser.add_argument("--tests", nargs="*", default=[], help="pytest these as well")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        must(["git", "clone", "--quiet", str(ROOT), str(clone)])
        (clone / PLACE).write_text(RULE, encoding="utf-8")
        config = Path(folder) / "train.toml"
        config.write_text(CONFIG)
        tested = fp8tune(clone, "rules", "test", "rules")
        listed = fp8tune(clone, "rules")
        linted = fp8tune(clone, "lint", "--output-format=concise", str(config))
        suite = pytest(clone, options.tests) if options.tests else None
        touched = must(["git", "status", "--porcelain", "-uall"], clone).splitlines()
    works = not tested.code and NAME in listed.output and NAME in linted.output
    print(f"rules test: {tested.output.strip().splitlines()[-1]}")
    print(f"listed by `fp8tune rules`: {_yes(NAME in listed.output)}")
    print(f"fires on a config: {_yes(NAME in linted.output)}")
    if suite is not None:
        print(f"tests: {suite.output.strip().splitlines()[-1]}")
        works = works and not suite.code
    for line in touched:
        print(f"git status: {line}")
    print(f"files touched = {len(touched)}")
    return int(len(touched) != 1 or not works)


def pytest(clone: Path, paths: list[str]) -> Finished:
    """Run tests of the clone, which leave nothing behind."""
    env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(clone)}
    quiet = ["-q", "-p", "no:cacheprovider"]
    return run([sys.executable, "-m", "pytest", *quiet, *paths], clone, env)


def fp8tune(clone: Path, *arguments: str) -> Finished:
    """Run the clone's own fp8tune; no byte-code is left behind."""
    env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(clone)}
    return run([sys.executable, "-m", "fp8tune", *arguments], clone, env)


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


if __name__ == "__main__":
    sys.exit(main())
