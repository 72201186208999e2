"""What trainers make of generated configs, and what lint says of the same.

``tests/data/NAME_verdicts.jsonl.gz`` has configs with the trainer's own verdicts, made
by ``python -m tools.verdicts NAME``. A comparison answers questions on a case, such as
whether it is refused, once for the trainer and once for lint.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fp8tune.formats import parse
from fp8tune.formats.document import Unreadable
from fp8tune.job import Job, Target, Unknown
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.lint.engine import check
from fp8tune.lint.rewrite import Rewritten, apply_fixes
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.packages import with_releases
from fp8tune.trainers.trainer import Trainer, trainer

DATA = Path(__file__).parents[1] / "data"

TEXTS = {
    "accelerate": ("text", "yaml"),
    "automodel": ("yaml", "yaml"),
    "axolotl": ("yaml", "yaml"),
    "deepspeed": ("json", "json"),
    "kempnerforge": ("toml", "toml"),
    "llamafactory": ("yaml", "yaml"),
    "megatron_bridge": ("yaml", "yaml"),
    "megatron_lm": ("flags", "bash"),
    "prime_rl": ("toml", "toml"),
    "torchtitan": ("toml", "toml"),
}
"""Which field of a recorded case has the config, and in which format."""

Case = dict[str, Any]
Answer = tuple[str, Any, Any]
"""A question, what the trainer answers and what lint does; ``None``: left open."""


def corpus(name: str) -> Path:
    """Return the file of a trainer's recorded verdicts."""
    return DATA / f"{name}_verdicts.jsonl.gz"


def cases(path: Path) -> list[Case]:
    """Return the cases of a file of JSON lines."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return list(map(json.loads, text.splitlines()))


@cache
def all_rules() -> Rules:
    """Return the built-in rules, all of them selected."""
    return Rules(read_builtin(), {})


def lint(
    path: str,
    text: str | bytes,
    only: str,
    world_size: int = 0,
    overrides: tuple[str, ...] = (),
) -> Report:
    """Return what all rules say of a text of a trainer, for a number of GPUs."""
    data = text.encode() if isinstance(text, str) else text
    origin = "--world-size" * bool(world_size)
    target = Target(world_size=world_size, world_size_origin=origin)
    return check(path, data, all_rules(), target, only=only, overrides=overrides)


def refusals(report: Report | None) -> list[Diagnostic]:
    """Return the findings for which the trainer would refuse the config."""
    return _errors(report, "rejected")


def crashes(report: Report | None, later: Iterable[str]) -> list[Diagnostic]:
    """Return the findings for which the set-up fails; ``later`` ones end a run."""
    return [found for found in _errors(report, "crash") if found.rule not in later]


def _errors(report: Report | None, category: str) -> list[Diagnostic]:
    found = report.diagnostics if report else []
    return [d for d in found if (d.category, d.severity) == (category, "error")]


def _job(known: Trainer, text: str, path: str, world_size: int = 0) -> Job:
    document = parse(text.encode(), path)
    document.read_as(known.about.reads)
    return known.job(known.load(document.values), Target(world_size=world_size))


def _fp8(job: Job) -> bool | None:
    precision = job.find("precision")
    return None if precision is None else bool(precision == "fp8")


def torchtitan(case: Case) -> Iterator[Answer]:
    """Compare refusals, but those that rest on what is installed."""
    if not case["error"].startswith(("ImportError", "ModuleNotFound", "no answer")):
        release = f"torchtitan=={case['version']}"
        report = lint("x", case["toml"], release, case["world_size"])
        yield (
            f"refused by {case['version']}",
            bool(case["error"]),
            bool(refusals(report)),
        )


def migrated(case: Case) -> Rewritten:
    """Return a file with keys of several releases after its fixes for one of them."""
    migrating = ("unknown-key", "unknown-key-ignored", "value-not-allowed")
    rules = Rules([rule for rule in read_builtin() if rule.name in migrating], {})
    target = Target(world_size=case["world_size"], world_size_origin="--world-size")
    name = f"torchtitan=={case['version']}"
    return apply_fixes(
        case["before"].encode(),
        lambda data: check("x", data, rules, target, only=name),
        unsafe=True,
    )


def prime_rl(case: Case) -> Iterator[Answer]:
    """Compare refusals, but those that rest on the package ``renderers``."""
    environment = ("typed renderer", "MODEL_RENDERER_MAP")
    if not any(words in case["error"] for words in environment):
        newest = trainer("prime_rl").version.rpartition(".")[0]
        report = lint("x", case["toml"], f"prime_rl=={newest}.{case['kind']}")
        yield f"refused as {case['kind']}", bool(case["error"]), bool(refusals(report))


def deepspeed(case: Case) -> Iterator[Answer]:
    """Compare refusals."""
    release = f"deepspeed=={case['release']}"
    report = lint("x.json", case["json"], release, case["world"])
    yield f"refused by {case['release']}", bool(case["error"]), bool(refusals(report))


def axolotl(case: Case) -> Iterator[Answer]:
    """Compare refusals, but those of missing packages, and whether FP8 is on."""
    missing = ("ImportError", "ModuleNotFoundError", "PackageNotFoundError")
    if not case["error"].startswith(missing):
        yield from _set_up("axolotl", case, {})


def llamafactory(case: Case) -> Iterator[Answer]:
    """Compare refusals, but those of one release of transformers, and FP8."""
    error = case["error"]
    of_release = ("incompatible with transformers", "warmup_steps must be of type int")
    if any(words in error for words in of_release):
        return
    keys = trainer(f"llamafactory=={case['version']}").schema.top_keys
    unknown = "are not used by the HfArgumentParser" in error
    if not (unknown and set(parse(case["yaml"].encode(), "x.yaml").values) <= {*keys}):
        known = {"transformers_release": case["transformers"]}
        yield from _set_up("llamafactory", case, known)


def _set_up(name: str, case: Case, known: dict[str, Any]) -> Iterator[Answer]:
    """Compare with a set-up whose own errors on this machine do not count."""
    release = trainer(f"{name}=={case['version']}")
    refused = bool(case["error"]) and not case["error"].startswith("set-up ")
    report = lint("x.yaml", case["yaml"], release.id)
    yield "refused", refused, bool(refusals(report))
    if case["fp8"] is None:
        return
    document = parse(case["yaml"].encode(), "x.yaml")
    document.read_as(release.about.reads)
    loaded = release.load(document.values)
    loaded.values.update(known)
    try:
        on = bool(release.job(loaded, Target())["fp8_on"])
    except Unknown:
        return
    yield "in FP8", case["fp8"] > 0, on


def megatron_lm(case: Case) -> Iterator[Answer]:
    """Compare refusals, whether the model can be built, and whether FP8 is on."""
    text, size = megatron_script(case["flags"], case["world_size"]), case["world_size"]
    report = lint("x.sh", text, "megatron_lm", size)
    refused = bool(refusals(report))
    yield "refused", bool(case["error"]), refused
    if case["error"] or refused:
        return
    later = ("fp8-tokens-not-16", "experts-without-sequence-parallel")
    yield "built", not case["failure"], not crashes(report, later)
    if "fp8" in case:
        on = _fp8(_job(trainer("megatron_lm"), text, "x.sh", size))
        yield "in FP8", case["fp8"] > 0, on


def megatron_script(flags: list[str], world_size: int) -> str:
    """Return a script that starts a run of Megatron-LM with these arguments."""
    lines = " ".join(
        f"\\\n    {flag}" if flag.startswith("--") else flag for flag in flags
    )
    return f"torchrun --nproc_per_node {world_size} pretrain_gpt.py {lines}\n"


def megatron_bridge(case: Case) -> Iterator[Answer]:
    """Compare refusals, skipped keys, lost mappings, and FP8 in every recipe."""
    lost, verdicts = "object has no attribute 'finalize'", case["verdicts"]
    report = lint("x.yaml", case["yaml"], "megatron_bridge")
    known, values = trainer("megatron_bridge"), yaml.safe_load(case["yaml"])
    fired = {found.rule for found in report.diagnostics}
    is_lost = lost in verdicts[0]["error"]
    yield "lost mapping", is_lost, "precision-without-target" in fired
    loaded = known.load(values)
    if "_target_" not in str(values.get("mixed_precision")):  # drops keys silently
        said = (f for f in loaded.faults if f.kind == "ignored-key")
        ignored = sorted(str(fault.facts["name"]) for fault in said)
        yield "skipped keys", verdicts[1]["skipped"], ignored
    job = known.job(loaded, Target())
    formats = {verdict["fp8"] for verdict in verdicts if not verdict["error"]}
    if formats and (told := job.find("te_format")) is not None:
        yield "format", formats, {told or None}
    errors = {v["error"] for v in verdicts if lost not in v["error"]}
    if len(errors) == 1:
        yield "refused", bool(errors.pop()), bool(refusals(report))
    if built := {v["layers"] > 0 for v in verdicts if not v["error"]}:
        on = _fp8(job)
        yield "in FP8", built, on if on is None else {on}


def automodel(case: Case) -> Iterator[Answer]:
    """Compare refusals, and in what is set up FP8 and compile."""
    known = trainer(f"automodel=={case['version']}")
    report = lint("x.yaml", case["yaml"], known.id)
    refused = bool(refusals(report))
    yield "refused", bool(case["error"]), refused
    if not (case["error"] or refused):
        job = known.job(known.load(yaml.safe_load(case["yaml"])), Target())
        yield "in FP8", case["fp8"] > 0, job.find("float8_linears")
        yield "compiled", case["compiled"], job.find("compile")


def accelerate(case: Case) -> Iterator[Answer]:
    """Compare refusals of the launcher, or what FP8 is at the end of the set-up."""
    text, known = case["text"], trainer(f"accelerate=={case['release']}")
    if case.get("training"):
        text += f"training: {json.dumps(case['training'])}\n"
    if case.get("deepspeed") is not None:
        text += f"deepspeed: {json.dumps(case['deepspeed'])}\n"
    command = ("--quiet",)  # changes nothing, so that the whole command is known
    report = lint("x.yaml", text, known.id, overrides=command)
    refused = refusals(report)
    if not case.get("program"):
        yield f"refused by {case['release']}", bool(case["error"]), bool(refused)
        return
    theirs = "on" if case["linears"] else "off"
    theirs = "fails" if case["error"] or case["failure"] else theirs
    later = ("fp8-weights-not-saved", "float8-with-any-length", "te-with-any-length")
    if refused or crashes(report, later):
        yield "FP8", theirs, "fails"
        return
    loaded = known.load(parse(text.encode(), "x.yaml").values)
    loaded = with_releases(loaded, known.about, "x.yaml")
    on = _fp8(known.job(loaded, Target()))
    yield "FP8", theirs, None if on is None else "on" if on else "off"


def kempnerforge(case: Case) -> Iterator[Answer]:
    """Compare refusals."""
    try:
        arguments = tuple(case.get("arguments", ()))
        size = case["world_size"]
        report = lint("x", case["toml"], "kempnerforge", size, arguments)
    except Unreadable:  # arguments whose effect is not known
        return
    yield "refused", case["verdict"] == "reject", bool(refusals(report))


COMPARISONS: dict[str, Callable[[Case], Iterator[Answer]]] = {
    each.__name__: each
    for each in (
        *(accelerate, automodel, axolotl, deepspeed, kempnerforge, llamafactory),
        *(megatron_bridge, megatron_lm, prime_rl, torchtitan),
    )
}
"""How lint is compared with each trainer."""


class Compared:
    """The answers on the cases of a trainer.

    ``different`` are lines that say each difference; ``counts`` has the number of
    cases by question and the trainer's answer; ``open`` those that lint leaves open.
    """

    def __init__(self, name: str, judged: Iterable[Case]) -> None:
        self.different: list[str] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.open: Counter[str] = Counter()
        for case in judged:
            for question, theirs, ours in COMPARISONS[name](case):
                if ours is None:
                    self.open[question] += 1
                    continue
                self.counts[question, str(theirs)] += 1
                if ours != theirs:
                    said = f"trainer: {theirs}; fp8tune: {ours}"
                    error = case.get("error") or case.get("message") or ""
                    self.different.append(
                        f"{case.get('id', '')}: {question}: {said} {error}"
                    )

    @property
    def questions(self) -> list[str]:
        """The questions that were answered."""
        return sorted({question for question, _ in self.counts})

    def summary(self) -> Iterator[str]:
        """Yield for each question the answers, and how many agree."""
        for question in self.questions:
            mine = {a: n for (q, a), n in self.counts.items() if q == question}
            wrong = sum(f": {question}: " in line for line in self.different)
            total = sum(mine.values())
            parts = ", ".join(f"{answer} {n}" for answer, n in sorted(mine.items()))
            left = f"; {self.open[question]} left open" * bool(self.open[question])
            yield f"{question}: {total - wrong} of {total} agree ({parts}){left}"
