"""Whether fixes do what they promise, on configs with the mistakes that people make.

``python -m benchmarks.fixes --count 1000 --seed 1`` writes broken configs to a folder
and runs ``fp8tune lint --fix`` and ``--unsafe-fixes`` on them. It counts what parses
afterwards, what changed outside the edits, what a second run changes, and what was
fixed. With ``--trainer-checkout CHECKOUT``, in a Python that has what the trainer
needs, the trainer itself judges every config before and after: it must accept all whose
rejections are fixed. Exit code 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.broken_configs import Broken, broken_configs
from benchmarks.machine import describe, table
from benchmarks.process import RESULTS, run
from benchmarks.trainer_fuzz import trainer_verdict
from benchmarks.verdicts import Look, look_with_all_rules, refusals
from fp8tune import __version__
from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.lint.rewrite import apply_fixes
from fp8tune.toml.document import InvalidToml, parse
from fp8tune.toml.edit import Edit, in_order

SHARE = 100
"""Files given to one process."""

Verdict = Callable[[str, int], str]


class Outcome(NamedTuple):
    """A config before and after fixes, as the command line wrote it."""

    config: Broken
    before: Report
    data: bytes
    after: Report | None
    fixed: tuple[Diagnostic, ...]
    stray: bool
    again: bytes
    unsafe: bool


def main() -> int:
    """Generate, fix, count, record."""
    parser = argparse.ArgumentParser(prog="fixes", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trainer-checkout", type=Path)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    configs = list(broken_configs(options.count, options.seed))
    checkout = options.trainer_checkout
    judge = trainer_verdict(checkout) if checkout else None
    made = {name: list(outcomes(configs, name)) for name in ("--fix", "--unsafe-fixes")}
    result = {
        "setting": {
            **describe(),
            "fp8tune": __version__,
            "count": options.count,
            "seed": options.seed,
        },
        "mistakes": Counter(m for config in configs for m in config.mistakes),
        **{name: counts(found, judge) for name, found in made.items()},
    }
    broken = record(result, options.output)
    return int(broken)


def outcomes(configs: list[Broken], option: str) -> Iterator[Outcome]:
    """What the command line makes of the configs, and whether only edits changed."""
    look = partial(_look, look_with_all_rules())
    with tempfile.TemporaryDirectory() as folder:
        once = on_disk(Path(folder), [config.data for config in configs], option)
        twice = on_disk(Path(folder), once, option)
    for config, data, again in zip(configs, once, twice, strict=True):
        unsafe = option == "--unsafe-fixes"
        expected = apply_fixes(config.data, look, unsafe=unsafe)
        stray = replayed(config.data, expected.passes) != data
        try:
            parse(data)
            after = look(data)
        except InvalidToml:
            after = None
        fixed, before = expected.fixed, look(config.data)
        yield Outcome(config, before, data, after, fixed, stray, again, unsafe)


def _look(look: Look, data: bytes) -> Report:
    """Check a config whose header comment gives the GPUs."""
    return look(data, 0)


def on_disk(folder: Path, texts: list[bytes], option: str) -> list[bytes]:
    """What the command line makes of files."""
    paths = [folder / f"{number:05}.toml" for number in range(len(texts))]
    for path, data in zip(paths, texts, strict=True):
        path.write_bytes(data)
    for start in range(0, len(paths), SHARE):
        share = [str(path) for path in paths[start : start + SHARE]]
        command = [sys.executable, "-m", "fp8tune", "lint", option, "-q"]
        done = run([*command, "--trainer", "kempnerforge", *share])
        if done.code not in (0, 1):
            raise RuntimeError(done.output)
    return [path.read_bytes() for path in paths]


def replayed(data: bytes, passes: Iterable[tuple[Diagnostic, ...]]) -> bytes:
    """The bytes after all edits, each pass in the text of the one before."""
    for together in passes:
        changes = {
            Edit(*c[:3]) for found in together if found.fix for c in found.fix.edits
        }
        text = data.decode()
        bom = text.startswith("\ufeff")
        for change in reversed(in_order(changes)):
            text = text[: change.start + bom] + change.text + text[change.end + bom :]
        data = text.encode()
    return data


def left(one: Outcome) -> list[Diagnostic]:
    """The findings whose fixes were asked for and do not hold."""
    found = one.after.diagnostics if one.after else []
    return [d for d in found if d.fix and (one.unsafe or d.fix.safety == "safe")]


def counts(made: list[Outcome], judge: Verdict | None) -> dict[str, Any]:
    """What was found and fixed, and what the verdicts are afterwards."""
    refused = [one for one in made if refusals(one.before)]
    freed = [one for one in refused if one.after and not refusals(one.after)]
    found = {
        "configs": len(made),
        "parse afterwards": sum(one.after is not None for one in made),
        "changed outside their edits": sum(one.stray for one in made),
        "changed again by a second run": sum(one.again != one.data for one in made),
        "findings before": sum(len(one.before.diagnostics) for one in made),
        "findings fixed": sum(len(one.fixed) for one in made),
        "findings after": sum(len(one.after.diagnostics) for one in made if one.after),
        "fixes left that do not hold": sum(map(len, map(left, made))),
        "rejected before": len(refused),
        "all rejections fixed": len(freed),
        "fixed by rule": Counter(d.rule for one in made for d in one.fixed),
    }
    if judge:
        found |= judged(made, freed, judge)
    return found


def judged(made: list[Outcome], freed: list[Outcome], judge: Verdict) -> dict[str, Any]:
    """What the trainer says itself."""

    def accepts(data: bytes, config: Broken) -> bool:
        return not judge(data.decode(), config.world_size)

    agree = [
        accepts(one.data, one.config) is not bool(refusals(one.after)) for one in made
    ]
    before = [one for one in made if accepts(one.config.data, one.config)]
    return {
        "of these the trainer accepts": sum(accepts(o.data, o.config) for o in freed),
        "verdicts that agree afterwards": sum(agree),
        "accepted by the trainer before": len(before),
        "accepted before and after": sum(accepts(o.data, o.config) for o in before),
    }


def promises(counted: dict[str, Any]) -> Iterator[str]:
    """The promises that a run breaks."""
    same = [
        ("parse afterwards", "configs"),
        ("of these the trainer accepts", "all rejections fixed"),
        ("verdicts that agree afterwards", "configs"),
        ("accepted before and after", "accepted by the trainer before"),
    ]
    for one, other in same:
        if one in counted and counted[one] != counted[other]:
            yield f"{one}: {counted[one]} of {counted[other]}"
    for none in ("changed outside their edits", "changed again by a second run"):
        if counted[none]:
            yield f"{none}: {counted[none]}"


def record(result: dict[str, Any], folder: Path) -> bool:
    """Print and write the result; whether a promise is broken."""
    text = "\n".join(_markdown(result))
    print(text)
    (folder / "fixes.md").write_text(f"{text}\n", encoding="utf-8")
    data = json.dumps(result, indent=2, sort_keys=False)
    (folder / "fixes.json").write_text(f"{data}\n", encoding="utf-8")
    broken = [
        f"{option}: {line}"
        for option in ("--fix", "--unsafe-fixes")
        for line in promises(result[option])
    ]
    for line in broken:
        print(f"broken promise: {line}", file=sys.stderr)
    return bool(broken)


def _markdown(result: dict[str, Any]) -> Iterator[str]:
    yield "# Fixes of broken configs\n"
    yield from (f"- {name}: {value}" for name, value in result["setting"].items())
    safe, unsafe = result["--fix"], result["--unsafe-fixes"]
    rows = [
        (name, str(value), str(unsafe[name]))
        for name, value in safe.items()
        if name != "fixed by rule"
    ]
    yield f"\n{table(rows, ('', '--fix', '--unsafe-fixes'))}"
    by_rule = unsafe["fixed by rule"].most_common()
    told = [(rule, str(safe["fixed by rule"][rule]), str(n)) for rule, n in by_rule]
    yield f"\n{table(told, ('fixed by rule', '--fix', '--unsafe-fixes'))}"
    kinds = [(name, str(count)) for name, count in result["mistakes"].most_common()]
    yield f"\n{table(kinds, ('mistake', 'configs'))}"


if __name__ == "__main__":
    sys.exit(main())
