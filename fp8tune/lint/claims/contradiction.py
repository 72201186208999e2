"""Find comments that contradict the keys of a config."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from itertools import islice
from typing import Any

from fp8tune.formats.document import ConfigDocument
from fp8tune.job import Job, Target, Unknown, Words
from fp8tune.lint.claims import BESIDE, Claim, Figure
from fp8tune.lint.claims.modes import modes
from fp8tune.lint.claims.prose import Comments, Line, lower
from fp8tune.lint.claims.quantities import quantities
from fp8tune.lint.claims.stated import Stated
from fp8tune.lint.directive import PROJECT, Directive
from fp8tune.trainers.faults import Fault, Loaded, dotted
from fp8tune.trainers.trainer import Trainer

MAX_CLAIMS = 100

_DEGREES = ("dp_replicate", "tp", "pp", "cp", "ep")
_CALLED = {"dp": "step.ranks", "fsdp": "dp_shard", "dp_shard": "dp_shard"}
_ABOUT = {"world_size": "dp_shard", "parameters": "layers"}
_GPUS = r"([0-9]{1,9}) ?[x\u00d7]?[ -]?(?:GPU|[AHB][12]00)"
_OTHER = r"\b(?:ac|checkpoint\w*|batch\w*|bf16|fp8|fp16|fp32)\b"
_FACTORS = {
    "step.sequences": ("micro_batch", "grad_accum", "step.ranks"),
    "step.tokens": ("micro_batch", "grad_accum", "step.ranks", "seq_len"),
    "step.ranks": ("dp_replicate", "dp_shard"),
}


def contradictions(
    document: ConfigDocument,
    known: Trainer,
    loaded: Loaded,
    directive: Directive,
    target: Target,
    job: Job | None = None,
) -> Iterator[Fault]:
    """Yield the claims that cannot be true of this file.

    The file is judged by itself. Where its keys leave the number of GPUs open, the
    title's counts, unless ``target``, what the command line or the project says, is
    another one. ``job`` is that of the file alone, where the caller has it. A claim
    does not count in a hedged sentence, nor where another one says something else
    about the same thing.
    """
    reader = _Reader(document, known, loaded, directive, target)
    if job is not None and reader.loaded is loaded:
        reader.plain = job
    for claim in reader.claims:
        facts = reader.against(claim)
        if facts and reader.stated.holds(claim):
            yield reader.fault(claim, facts)


def titled_gpus(
    document: ConfigDocument, known: Trainer, loaded: Loaded, directive: Directive
) -> tuple[int, int]:
    """How many GPUs the title says that the file is for, and on which line, or 0."""
    return _Reader(document, known, loaded, directive, Target()).gpus


class _Reader:
    def __init__(
        self,
        document: ConfigDocument,
        known: Trainer,
        loaded: Loaded,
        directive: Directive,
        target: Target,
    ) -> None:
        self.target = target
        self.document = document
        self.known = known
        self.loaded = _under_header(document, known, loaded)
        self.directive = directive
        self.comments = Comments(document)
        self.claims = list(islice(self._claims(), MAX_CLAIMS))

    def _claims(self) -> Iterator[Claim]:
        """Yield all claims, those in hedged sentences too."""
        for line in self.comments.lines():
            for claim in _claimed(line.text, header=line.header, inline=line.inline):
                yield claim.moved(line)

    @cached_property
    def stated(self) -> Stated:
        """The claims that count."""
        return Stated(self.comments, self.claims, _names(self.known))

    @cached_property
    def plain(self) -> Job:
        """The job of the file alone."""
        return self.known.job(self.loaded, self.directive.complete(Target()))

    @cached_property
    def titled(self) -> tuple[Job, str]:
        """The job on as many GPUs as the title says, and words that say so.

        The job of the file alone if the run has another number.
        """
        size, line = self.gpus
        if not size or self.target.world_size not in (0, size):
            return self.plain, ""
        job = self.known.job(self.loaded, Target(world_size=size))
        return job, f" on the {size} GPUs of line {line}"

    @cached_property
    def gpus(self) -> tuple[int, int]:
        """How many GPUs the title names, and on which line; 0 if none."""
        for claim in self.claims:
            if claim.name == "world_size" and self.stated.holds(claim):
                line = self.document.lines.position(claim.span[0]).line
                return int(_figure(claim).value), line
        return 0, 0

    def value(self, name: str) -> tuple[Any, Job, str]:
        """Return a value, its job, and words for the GPUs that it depends on."""
        try:
            return self.plain[name], self.plain, ""
        except Unknown:
            job, words = self.titled
            return job[name], job, words

    def against(self, claim: Claim) -> dict[str, Any]:
        """Return what contradicts a claim, as facts of a fault; else empty."""
        try:
            if claim.name == "world_size":
                return self._gpus(_figure(claim))
            if claim.name == "parameters":
                return self._parameters(_figure(claim))
            if claim.name == "memory.low_gib":
                return self._memory(claim)
            if claim.kind == "no-checkpoint-in-comment":
                return self._no_checkpoint(claim)
            return self._value(claim)
        except (Unknown, ArithmeticError, TypeError, ValueError):
            return {}

    def _gpus(self, figure: Figure) -> dict[str, Any]:
        size = self.directive.world_size
        if size:
            line = self.directive.world_size_line
            words = f"the file says `world-size={size}` on line {line}"
            return {} if figure.means(size) else _facts(size, words)
        degrees = {name: self.plain[name] for name in _DEGREES}
        product, end = math.prod(degrees.values()), ", which does not divide it"
        fits, size = not figure.value % product, self.target.world_size
        try:
            degrees = {"dp_shard": self.plain["dp_shard"], **degrees}
        except Unknown:
            project = self.target.world_size_origin == PROJECT
            if fits and project and not figure.means(size):
                return _facts(size, f"{PROJECT} says `world-size = {size}`")
        else:
            product, end = math.prod(degrees.values()), ""
            fits = figure.means(product)
        if fits:
            return {}
        words = " x ".join(f"{n} {v}" for n, v in degrees.items() if v != 1) or "1"
        return _facts(product, f"the file says {words} = {product} GPUs{end}")

    def _parameters(self, figure: Figure) -> dict[str, Any]:
        least = self.plain["decoder_parameters"]
        try:
            wrong = not figure.means(self.plain["parameters"])
        except Unknown:
            wrong = figure.below(least)
        bound = Words("at least " if self.plain.get("vlm") else "")
        return {"least": bound, **_facts(least)} if wrong else {}

    def _memory(self, claim: Claim) -> dict[str, Any]:
        """Return what contradicts a memory figure: the run needs more."""
        words, _, _ = self.comments.sentence(claim.span)
        if re.search(_OTHER, words.lower()):
            return {}  # possibly of another mode than the run's
        least, job, basis = self.value(claim.name)
        if not _figure(claim).below(least):
            return {}
        said = {"least": Words("at least "), "basis": Words(basis)}
        return {"key": job.key("micro_batch"), **said, **_facts(least)}

    def _no_checkpoint(self, claim: Claim) -> dict[str, Any]:
        job = self.plain
        interval = job["checkpoint_interval"]
        saved = job["checkpoints"] > 0 and interval > job["max_steps"]
        here = saved and self._beside(claim) == job.key(claim.name)
        return _facts(interval) if here else {}

    def _value(self, claim: Claim) -> dict[str, Any]:
        name = self._name(claim)
        value, job, basis = self.value(name)
        if claim.figure is None:
            if value in claim.words:
                return {}
            words, _, _ = self.comments.sentence(claim.span)
            said = str(value)
            return {} if said in words.lower() else _facts(Words(said))
        number = isinstance(value, (int, float)) and value > 0
        if not number or claim.figure.means(value):
            return {}
        if name in _FACTORS and self._elsewhere(claim, job):
            return {}
        factors = [job[factor] for factor in _FACTORS.get(name, ())]
        working = " x ".join(f"{v:,}" for v in factors if v != 1)
        return {"key": job.key(name), "basis": Words(basis), **_facts(value, working)}

    def _elsewhere(self, claim: Claim, job: Job) -> bool:
        """Return whether the sentence is about another number of GPUs."""
        words, _, _ = self.comments.sentence(claim.span)
        size = math.prod(job[name] for name in (*_DEGREES, "dp_shard"))
        return any(int(number) != size for number in re.findall(_GPUS, words))

    def _name(self, claim: Claim) -> str:
        """Return the name of the job, or the key, that a claim is about."""
        name, words = _CALLED.get(claim.name, claim.name), self.plain.words
        if claim.name == BESIDE:
            return self._beside(claim)
        if name == "step.tokens" and self.plain.get("vlm"):
            raise Unknown(name)  # of text, or of text and images
        if "." in name or name in words.renamed or name != claim.name:
            return name
        sections = self.known.schema.sections if "_" in name else ()
        keys = [f"{s}.{name}" for s in sections if f"{s}.{name}" in words.keys]
        if len(keys) != 1 and not words.knows(name):
            raise Unknown(name)
        return keys[0] if len(keys) == 1 else name

    def _beside(self, claim: Claim) -> str:
        """Return the key whose value precedes the comment on its line."""
        text, start = self.document.text, claim.line.start
        hash_at = text.rindex("#", 0, start)
        begin = text.rfind("\n", 0, start) + 1
        for path, (_, end) in self.document.spans.values.items():
            if begin < end <= hash_at and not text[end:hash_at].strip():
                return dotted(path)
        raise Unknown("the key on the line")

    def fault(self, claim: Claim, facts: dict[str, Any]) -> Fault:
        """Return the fault of a claim, with the edit that corrects its number."""
        said = Words(" ".join(self.document.text[slice(*claim.span)].split()))
        key = self.plain.key(_ABOUT.get(claim.name, claim.name))
        facts = {"said": said, "key": key, **facts}
        fault = Fault(claim.kind, (), facts, claim.span)
        if claim.figure is None or not claim.number[1] or facts.get("least"):
            return fault
        from fp8tune.formats.edits import Edit

        try:
            right = claim.figure.restyled(facts["value"])
        except OverflowError:
            return fault
        return fault._replace(edits=(Edit(*claim.number, right),))


@lru_cache(4096)
def _claimed(text: str, *, header: bool, inline: bool) -> tuple[Claim, ...]:
    """Return the claims of a comment (cached: configs of a sweep share comments)."""
    line = Line(text, 0, lower(text), header, inline)
    return (*quantities(line), *modes(line))


@cache
def _names(known: Trainer) -> frozenset[str]:
    """Return the names that may precede ``=`` in a comment."""
    keys = (key.rpartition(".")[2] for key in known.vocabulary.keys)
    return frozenset((*keys, *_CALLED, *_DEGREES))


def _under_header(document: ConfigDocument, known: Trainer, loaded: Loaded) -> Loaded:
    """The config with the section header that it lacks: that is what comments mean."""
    lacking = [f.facts["section"] for f in loaded.faults if f.kind == "missing-header"]
    if not lacking:
        return loaded
    sections: dict[str, Any] = {lacking[0]: {}}
    for name, value in document.values.items():
        home = sections if name in known.schema.sections else sections[lacking[0]]
        home[name] = value
    return known.load(sections)


def _facts(value: Any, working: str = "") -> dict[str, Any]:
    return {"value": value, "working": Words(working)}


def _figure(claim: Claim) -> Figure:
    return claim.figure or Figure("0")
