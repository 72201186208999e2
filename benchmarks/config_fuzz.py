"""Mutate whole configs of every trainer and run all of lint: nothing may be raised.

``python -m benchmarks.config_fuzz --count 10000 --seed 1`` starts from the sample
configs, the examples of the rules, and the configs whose verdicts are recorded in
``tests/data``. Mutations change bytes, tokens, values, numbers and comments; in a third
of the configs a field or a fact of the job is unknown. Each result is checked with the
rules as a wheel has them, as one file or for its trainer. By turns it is fixed, fixed
unsafely, given ignore comments, or left; a second run of fixes must change nothing.

A config is a function of its seed and number: ``--seed 1 --only 4711`` prints it with
its traceback. Exit code 1 if anything was raised, by a rule too.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import Pool
from random import Random
from typing import Any, NamedTuple

from benchmarks.paths import ROOT
from fp8tune.formats.document import Unreadable
from fp8tune.formats.edits import unified_diff
from fp8tune.job import Job, Target, Unknown
from fp8tune.lint.bug import bug
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Report
from fp8tune.lint.engine import check
from fp8tune.lint.examples import name_of, plain_config
from fp8tune.lint.needs import needs_of
from fp8tune.lint.rewrite import apply_fixes, ignore
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.about import trainers
from fp8tune.trainers.trainer import trainer
from tests.support.verdicts import DATA, TEXTS, cases

SHARE = 250
"""Configs that one process takes at a time."""
REWRITTEN = 11
"""Of so many configs three are rewritten: fixed safely, unsafely, or ignored."""

NUMBERS = (
    *("0", "-0", "1", "-1", "2", "3", "7", "16", "0.1", "1.5", "3.0", "1_000", "-0.0"),
    *map(str, (2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**22)),
    *("9" * 300, "-" + "9" * 300, "9" * 4300, "9" * 4301, "0x" + "f" * 5000),
    *("0b" + "1" * 2000, "0o7", "1e308", "-1e308", "1e-308", "5e-324", "1e400"),
    *("inf", "-inf", "nan", "9" * 20, "9" * 16, "123_456_789_012_345_678"),
)
VALUES = (
    *('""', '"fp8"', '"FP8"', '"full"', '"none"', '"true"', '" 8 "', '"\\u0000"'),
    *('"' + "x" * 5000 + '"', "'''\n# no comment\n'''", '"""a\\\n  b"""', '"\\u202e"'),
    *("true", "false", "[]", "[1]", "[0.9, 0.95]", "[0.9, inf, nan]", "{}"),
    *("{ a = 1 }", "{ image = 1, text = 2 }", '[{ path = "x" }]', '["a", ["b", [1]]]'),
    *("1979-05-27T07:32:00Z", "2026-01-01", "07:32:00", "[" * 80 + "]" * 80),
    *("{ a = " * 40 + "1" + " }" * 40, "[1, # one\n 2]", "[[]]", "[{}]"),
)
BYTES = (
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n", b"\t", b"\x7f", b"\x1b["),
    *(b"#", b"=", b".", b"[", b"]", b"{", b"}", b'"', b"'", b'"""', b"\\", b",", b"-"),
    *("\u2028".encode(), "\u202e".encode(), "\u0130".encode(), "\U0001f600".encode()),
    *(b"\xed\xa0\x80", b"\xc0\x80", "\u0661".encode(), "\u00b2".encode()),
)
PHRASES = """\
8 x H100
{n} GPUs
{n} nodes x {n} GPUs
FSDP over {n}
fp8tune: gpu=h100 world-size={n}
fp8tune: gpu={n}
fp8tune: world-size= {n}
fp8tune: ignore[{rule}]
fp8tune: ignore[{rule},{rule}] until=2027-01-31 -- why
fp8tune: ignore[{rule}] until=2020-02-30
fp8tune: ignore[]
fp8tune: ignore[{n}] until={n} -- {n}
""".splitlines()
"""Comments; ``{n}`` is a number, ``{rule}`` the name of a rule."""
TARGETS = (
    Target(),
    Target("H100", 16, "--gpu", "--world-size"),
    Target("H200", 8, "--gpu", "--world-size"),
    Target("A100 80GB", 0, "pyproject.toml"),
    Target("", 7, "", "--world-size"),
    Target("B200", 10**7, "--gpu", "--world-size"),
)
_TOKEN = re.compile(
    r"""[A-Za-z_][\w-]*|[0-9][\w.]*|"[^"\n]*"|'[^'\n]*'|\#[^\n]*|\s+|.""", re.DOTALL
)
_PAIR = re.compile(r"(?m)(?:=[ \t]*|:[ \t]+|--[\w-]+[ \t]+)([^\s#\\][^\n#\\]*)")
_NUMBER = re.compile(r"[0-9][0-9_.]*")


class Source(NamedTuple):
    """A config that mutations start from, and a file name of its format."""

    text: str
    path: str


class Corpus(NamedTuple):
    """What mutations start from and draw on; sources and tokens by trainer."""

    sources: dict[str, list[Source]]
    tokens: dict[str, list[str]]
    rules: list[str]


class Mutated(NamedTuple):
    """A mutated config.

    ``lacking`` is a name of the job that is unknown, if there is one.
    """

    data: bytes
    path: str
    trainer: str
    lacking: str = ""


@cache
def corpus() -> Corpus:
    """The sample configs, the examples of all rules, recorded configs, their words."""
    rules = read_builtin()
    samples = sorted((ROOT / "configs").glob("*.toml"))
    configs = [path.read_text("utf-8") for path in samples]
    sources = {name: list(_recorded(name)) for name in TEXTS}
    sources["kempnerforge"] += (Source(text, "sample.toml") for text in configs)
    for rule in rules:
        for example in (*rule.bad, *rule.good):
            source = Source(plain_config(example), name_of(example))
            sources[(*rule.trainers, "kempnerforge")[0]].append(source)
    tokens = {
        name: sorted({word for each in found for word in _TOKEN.findall(each.text)})
        for name, found in sources.items()
    }
    return Corpus(sources, tokens, [rule.name for rule in rules])


def _recorded(name: str) -> Iterator[Source]:
    """Yield the configs of a trainer whose verdicts are recorded."""
    field, form = TEXTS[name]
    for case in cases(DATA / f"{name}_verdicts.jsonl.gz"):
        text = case[field]
        if form == "bash":
            flags = " ".join(text).replace(" --", " \\\n  --")
            text = f"torchrun --nproc_per_node 8 pretrain_gpt.py \\\n  {flags}\n"
        yield Source(text, f"config.{form}")


def mutated(seed: int, number: int) -> Mutated:
    """The config of that seed and number."""
    dice = Random(seed * 10**9 + number)  # noqa: S311
    name = dice.choice(list(TEXTS))
    text, path = dice.choice(corpus().sources[name])
    for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3, 5, 8))):
        text = dice.choice(MUTATIONS)(text, dice, name)
    data = text.encode("utf-8", "surrogatepass")
    data = _bytes(data, dice) if dice.random() < 0.05 else data
    lacking = dice.choice(_names(name)) if dice.random() < 1 / 3 else ""
    return Mutated(data, path, name, lacking)


@cache
def _names(name: str) -> list[str]:
    """The fields and facts that a trainer's jobs compute."""
    return sorted(trainer(name).vocabulary.computed)


def _bytes(data: bytes, dice: Random) -> bytes:
    """Insert, drop, repeat or replace some bytes."""
    for _ in range(dice.choice((1, 1, 2, 6))):
        at = dice.randrange(len(data) + 1)
        end = min(len(data), at + dice.choice((0, 1, 1, 4, 40)))
        new = dice.choice((b"", bytes([dice.randrange(256)]), data[at:end] * 2))
        data = data[:at] + dice.choice((new, dice.choice(BYTES))) + data[end:]
    return data


def _tokens(text: str, dice: Random, name: str) -> str:
    """Replace, drop, repeat or exchange tokens."""
    tokens = _TOKEN.findall(text)
    for _ in range(dice.choice((1, 1, 2, 4)) if tokens else 0):
        at, other = dice.randrange(len(tokens)), dice.randrange(len(tokens))
        old = tokens[at]
        word = dice.choice(corpus().tokens[name])
        choices = (word, word, "", old * 2, f"-{old}", tokens[other])
        tokens[at] = dice.choice(choices)
        if dice.random() < 0.2:
            tokens[other] = old
    return "".join(tokens)


def _value(text: str, dice: Random, _: str) -> str:
    """Put an odd value in the place of one that stands there."""
    return _replaced(text, _PAIR, dice.choice((*NUMBERS, *VALUES)), dice, group=1)


def _number(text: str, dice: Random, _: str) -> str:
    """Put another number in the place of one, also in comments and names."""
    return _replaced(text, _NUMBER, dice.choice(NUMBERS), dice)


def _replaced(
    text: str, pattern: re.Pattern[str], new: str, dice: Random, group: int = 0
) -> str:
    spans = [match.span(group) for match in pattern.finditer(text)]
    if not spans:
        return text
    start, end = dice.choice(spans)
    return f"{text[:start]}{new}{text[end:]}"


def _comment(text: str, dice: Random, _: str) -> str:
    """Add comments that claim something, give a target or ignore a rule."""
    lines = text.split("\n")
    for _line in range(dice.choice((1, 1, 2, 5))):
        words = dice.choice(PHRASES)
        words = re.sub("{n}", lambda _: _figure(dice), words)
        words = re.sub("{rule}", lambda _: dice.choice(corpus().rules), words)
        said = dice.choice(("# ", "#", "## ", "#\t", "# - ")) + words
        at = dice.choice((0, dice.randrange(len(lines))))
        if dice.random() < 0.4:
            lines[at] += f"  {said}"
        else:
            lines.insert(at, said)
    return "\n".join(lines)


def _figure(dice: Random) -> str:
    odd = dice.choice((*NUMBERS, "1,024", "12.5", "\u0661\u0662", "\u00b2"))
    return dice.choice((str(dice.randrange(1, 4096)), "8", "16", odd))


MUTATIONS = (_tokens, _value, _value, _number, _number, _comment, _comment)


class Run(NamedTuple):
    """What became of a config: what was found in it, and what was raised."""

    number: int
    what: str
    error: str = ""


@cache
def _rules() -> Rules:
    """The built-in rules, of which the check skips those that a wheel would skip."""
    rules = read_builtin()
    return Rules(rules, {}, needs_of=cache(partial(needs_of, rules)))


class RuleRaised(Exception):
    """A rule raised an error, which cost its finding; as lint says it."""


class FixedTwice(Exception):
    """A second run of fixes changed the file again."""


@contextmanager
def without(name: str, of: str) -> Iterator[None]:
    """Make a field or a fact unknown in all jobs of a trainer."""

    def unknown(_: Job) -> Any:
        raise Unknown(name)

    plans = (
        [trainer(id_).vocabulary.plans for id_ in trainers()[of].ids] if name else []
    )
    for plan in plans:
        plan[name] = unknown
    try:
        yield
    finally:
        for plan in plans:
            del plan[name]


def linted(config: Mutated, number: int) -> str:
    """What lint does with one file; in a word, what the file was.

    The number says for which target, and how it is rewritten.
    """
    only = config.trainer * (number % 3 == 0)

    @cache
    def look(data: bytes) -> Report:
        target, explicit = TARGETS[number % len(TARGETS)], number % 5 > 0
        path, rules = config.path, _rules()
        report = check(path, data, rules, target, only=only, explicit=explicit)
        if report.bugs:
            raise RuleRaised(report.bugs[0])
        return report

    with without(config.lacking, config.trainer):
        return _rewritten(config, number, look)


def _rewritten(config: Mutated, number: int, look: Callable[[bytes], Report]) -> str:
    data = config.data
    try:
        report = look(data)
    except Unreadable:
        return "unreadable"
    if report.skipped:
        return "skipped"
    match number % REWRITTEN:
        case 0 | 1 as unsafe:
            new = apply_fixes(data, look, unsafe=bool(unsafe)).data
            if apply_fixes(new, look, unsafe=bool(unsafe)).passes:
                raise FixedTwice(config.path)
        case 2:
            new = ignore(data, look, " until=2099-12-31 -- why").data
        case _:
            new = data
    unified_diff(config.path, data, new)
    if any(found.rule.startswith("invalid-") for found in report.diagnostics):
        return "invalid"
    if new != data:
        return "rewritten"
    return "findings" if report.diagnostics else "clean"


def tried(seed: int, numbers: range) -> list[Run]:
    """Lint some configs; none of them may raise."""
    runs = []
    for number in numbers:
        config = mutated(seed, number)
        try:
            runs.append(Run(number, linted(config, number)))
        except RuleRaised as error:
            runs.append(Run(number, "raised", str(error)))
        except Exception as error:
            runs.append(Run(number, "raised", bug(error)))
    return runs


def main(arguments: list[str] | None = None) -> int:
    """Mutate, lint, count."""
    parser = argparse.ArgumentParser(prog="config_fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int, help="print this config and its traceback")
    options = parser.parse_args(arguments)
    if options.only is not None:
        config = mutated(options.seed, options.only)
        sys.stdout.buffer.write(config.data + b"\n")
        print(*config[1:], flush=True)
        print(linted(config, options.only))
        return 0
    found: Counter[str] = Counter()
    errors: dict[str, list[int]] = {}
    with Pool(options.jobs) as pool:
        work = partial(tried, options.seed)
        every = range(options.count)
        shares = (every[start : start + SHARE] for start in every[::SHARE])
        for runs in pool.imap_unordered(work, shares):
            for run in runs:
                found[run.what] += 1
                if run.error:
                    errors.setdefault(run.error, []).append(run.number)
    print(f"{options.count:,} configs of seed {options.seed}: {dict(found)}")
    for error, numbers in sorted(errors.items()):
        print(f"{len(numbers):6} x {error} (--only {numbers[0]})")
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
