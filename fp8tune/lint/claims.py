"""What the comments of a config say about the run, where that has one meaning.

A claim is a figure with a unit that names one quantity of the job (``1.6M tokens/step``,
``256 seqs``, ``TP=4``), or a word that names a mode (``full AC``). What contradicts it is
found in ``fp8tune.lint.contradiction``; whether its sentence counts is known to
``fp8tune.lint.prose``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fp8tune.lint.figure import Figure
from fp8tune.lint.prose import Line
from fp8tune.toml import Span

_NUMBER = re.compile(
    r"(?<![\w.,/<>\u2264\u2265+\u2013\u2014-])(?P<about>[~\u2248] ?)?"
    r"(?P<digits>\d{1,15}(?:,\d{3}){0,4}(?:\.\d{1,6})?)"
    r"(?: ?(?P<scale>[kKMBT])(?!\w))?(?![\w.]*\w|[-\u2013+/,]\d)"
)
_UNIT = re.compile(
    r"(?:-| ?)(?P<unit>tokens?|toks?|sequences|seqs?|samples|layers|heads|kv[ _]heads"
    r"|experts|steps|total(?: param(?:eter)?s?)?|param(?:eter)?s)\b"
    r"(?P<step>\)?(?: ?/ ?| per )(?:optimizer |training )?(?:step|update)\b)?",
    re.IGNORECASE,
)
_GPUS = re.compile(
    r"(?: ?(?:nodes? )?[x\u00d7*] ?(?P<times>\d{1,6}))?(?:(?P<by> ?[x\u00d7] ?)|[ -])"
    r"(?:NVIDIA )?(?:(?P<gpu>GPUs?)|(?:GH|GB|[AHBL])\d{2,3}(?P<many>s| GPUs?)?)\b"
)
_NAMED = re.compile(r"(?<![\w.-])([A-Za-z_]\w*) ?= ?$")
_BATCH = re.compile(r"\b(?:global|effective) batch(?: size)?(?: of| is|:)?[ =]*$", re.I)
_EVERY = re.compile(r"\b(checkpoint|eval|log)(?:s|ing|uate)? every $", re.I)
_RUNS = re.compile(r"\bthis (?:config|run|file) (?:runs|trains)(?: for)? $", re.I)
_TOTAL = re.compile(r"\btotal param(?:eter)?s?(?: ?[:=])? $", re.I)
_AC = re.compile(
    r"(?:(?<=[(,+=])|(?<=\bwith)) ?(?P<words>(?P<before>selective|full|no)"
    r" (?:AC|activation checkpointing))(?=\s*(?:$|[).,+]))"
    r"|(?P<said>(?:\bAC|\b[Aa]ctivation checkpointing)(?: is|:| ?=)? ?\b(?P<after>"
    r"(?:off|OFF)(?![-\w])|(?:on|ON|full|selective|none)(?=\s*(?:$|[).,;]|and\b))))"
)
_PRECISION = re.compile(r"\b(?:bf16|fp16|fp32|fp8|bfloat16|float8)\b", re.IGNORECASE)
_NO_CHECKPOINT = re.compile(
    r"\bno checkpoints?(?: is| are)?(?: written| saved)?(?: (?:in|for) this \w+)?[ .]*$",
    re.IGNORECASE,
)

_TRIGGERS = ("tok", "seq", "sample", "batch", "step", "total", "param", "fsdp over")
_IN_OPENING = ("gpu", "=", "layer", "head", "expert", "h100", "h200", "a100", "b200")
_LIMITS = ("to", "than", "least", "most", "max", "maximum", "min", "minimum", "or")
_MORE = ("+", "/", "per ", "or ", "to ", "and up", "each")
_COUNTS = {"layers": "layers", "heads": "heads", "experts": "experts"}
_COUNTS |= {"kv heads": "kv_heads", "kv_heads": "kv_heads"}
_CADENCES = {"checkpoint": "checkpoint_interval", "eval": "eval_interval"}
_CADENCES |= {"log": "log_interval"}
_MODES = {"no": ("none",), "off": ("none",), "on": ("full", "selective")}

BESIDE = ""
"""The name of a claim about the key that it stands beside."""


class Claim(NamedTuple):
    """One statement: the kind of finding it may lead to, and what it is about.

    ``name`` is a name of the job, or what stands before ``=``. The value must be what
    ``figure`` means, or one of ``words``; ``number`` is the figure's span. A claim of the
    ``title`` counts only in the first sentence of the file.
    """

    kind: str
    name: str
    line: Line
    span: Span
    number: Span = (0, 0)
    figure: Figure | None = None
    words: tuple[str, ...] = ()
    title: bool = False


def read_claims(lines: list[Line]) -> Iterator[Claim]:
    """All claims of the comments, also those in sentences that are hedged."""
    for line in lines:
        words = line.text.lower()
        opening = line.header and line.paragraph < 2
        if _any(_TRIGGERS, words) or (opening and _any(_IN_OPENING, words)):
            yield from _figures(line, opening)
        if "AC" in line.text or "checkpointing" in words:
            yield from _modes(line)
        if line.inline and "no checkpoint" in words:
            yield from _no_checkpoint(line)
    yield from _precision(
        [line for line in lines if line.header and not line.paragraph]
    )


def _any(parts: Iterable[str], text: str) -> bool:
    return any(part in text for part in parts)


def _figures(line: Line, opening: bool) -> Iterator[Claim]:
    end = line.start
    for number in _NUMBER.finditer(line.text):
        if line.start + number.start() >= end:
            claim = _Number(line, number, opening).claim()
            if claim is not None:
                end = claim.span[1]
                yield claim


class _Number:
    """A number of a comment, with what stands before and behind it."""

    def __init__(self, line: Line, match: re.Match[str], opening: bool) -> None:
        self.line = line
        self.match = match
        self.opening = opening
        self.scale = match["scale"] or ""
        self.before = line.text[: match.start()]
        self.unit = _UNIT.match(line.text, match.end())

    def claim(self) -> Claim | None:
        if self.before.rstrip().rpartition(" ")[2].lower() in _LIMITS:
            return None
        if self.unit is None:
            return self._gpus() or self._named() or self._batch() or self._total()
        kind = self.unit["unit"].lower()
        if kind.startswith("tok"):
            return self._tokens()
        if kind.startswith(("seq", "sample")):
            return self._sequences()
        if kind.startswith(("total", "param")):
            return self._parameters(kind)
        return self._steps() if kind == "steps" else self._count(_COUNTS[kind])

    def _made(
        self, kind: str, name: str, end: int, *, start: int = -1, exact: bool = True
    ) -> Claim:
        match, offset = self.match, self.line.start
        about = match["about"] is not None
        bases = (1000,) if name == "parameters" else (1000, 1024)
        figure = Figure(match["digits"], self.scale, about, exact, bases)
        begin = match.start() if start < 0 else start
        span = (offset + begin, offset + end)
        number = (offset + match.start("digits"), offset + match.end())
        return Claim(kind, name, self.line, span, number, figure)

    def _rest(self, end: int) -> str:
        return self.line.text[end:].lstrip().lower()

    def _ends(self, end: int) -> bool:
        """Whether what is said is an item of its own up to here."""
        rest = self._rest(end)
        return not rest or rest[0] in ".,;:)(" or rest.startswith("of which")

    def _begins(self) -> bool:
        before = self.before.rstrip()
        return not before or before[-1] in ",;:(+" or before.endswith("with")

    def _gpus(self) -> Claim | None:
        gpus = _GPUS.match(self.line.text, self.match.end())
        plain = not self.scale and "." not in self.match["digits"]
        first = self.line.header and self.line.paragraph == 0
        if gpus is None or not plain or not first:
            return None
        sure = gpus["gpu"] or gpus["many"] or gpus["times"] or gpus["by"]
        if not sure or self._rest(gpus.end()).startswith(_MORE):
            return None
        made = self._made("wrong-gpus-in-comment", "world_size", gpus.end())
        if gpus["times"] and made.figure is not None:
            total = int(made.figure.digits.replace(",", "")) * int(gpus["times"])
            made = made._replace(
                figure=made.figure._replace(digits=str(total)), number=(0, 0)
            )
        return made._replace(title=True)

    def _named(self) -> Claim | None:
        named = _NAMED.search(self.before)
        whole = not self.before[: named.start()].strip() if named else True
        rest = self._rest(self.match.end())
        if named is None or not self.opening or (whole and not rest):
            return None
        start = named.start()
        name = named[1].lower()
        return self._made("wrong-value-in-comment", name, self.match.end(), start=start)

    def _batch(self) -> Claim | None:
        batch = _BATCH.search(self.before)
        end = self.match.end()
        if batch is None or self.scale or not self._ends(end):
            return None
        start = batch.start()
        return self._made("wrong-batch-in-comment", "step.sequences", end, start=start)

    def _total(self) -> Claim | None:
        total = _TOTAL.search(self.before)
        if total is None or self.scale not in ("M", "B", "T"):
            return None
        kind, end = "wrong-size-in-comment", self.match.end()
        return self._made(kind, "parameters", end, start=total.start(), exact=False)

    def _per_step(self) -> int:
        """Where the unit ends if it is per step or of a global batch, else 0."""
        assert self.unit is not None
        if self._rest(self.unit.end()).startswith(_MORE):
            return 0
        whole = self.unit["step"] or _BATCH.search(self.before)
        return self.unit.end() if whole else 0

    def _tokens(self) -> Claim | None:
        end, kind = self._per_step(), "wrong-tokens-in-comment"
        return self._made(kind, "step.tokens", end, exact=False) if end else None

    def _sequences(self) -> Claim | None:
        assert self.unit is not None
        end, kind = self._per_step(), "wrong-batch-in-comment"
        left, equals, gap = self.before.rpartition("=")
        factors = len(re.findall(r"[x\u00d7*] ?\d", left.rpartition("=")[2]))
        more = self._rest(self.unit.end()).startswith(_MORE)
        if not end and equals and not gap.strip() and factors > 1 and not more:
            end = self.unit.end()
        return self._made(kind, "step.sequences", end) if end else None

    def _parameters(self, unit: str) -> Claim | None:
        assert self.unit is not None
        end, kind = self.unit.end(), "wrong-size-in-comment"
        if self.scale not in ("M", "B", "T") or not self._ends(end):
            return None
        if unit.startswith("param") and not (
            self.opening and "." in self.match["digits"]
        ):
            return None
        if unit == "total" and not _any(("param", "active", "train"), self.line.text):
            return None
        return self._made(kind, "parameters", end, exact=False)

    def _steps(self) -> Claim | None:
        assert self.unit is not None
        end, kind = self.unit.end(), "wrong-value-in-comment"
        rest = self._rest(end)
        cadence = _EVERY.search(self.before)
        if cadence is not None:
            name, start = _CADENCES[cadence[1].lower()], cadence.start()
            return self._made(kind, name, end, start=start)
        product = rest[:1] in ("x", "\u00d7", "*") and "tokens/step" in rest
        if self.line.inline and not self.before.strip() and not rest.strip("."):
            return self._made(kind, BESIDE, end)
        if product or (_RUNS.search(self.before) and not rest.startswith(_MORE)):
            return self._made(kind, "max_steps", end)
        return None

    def _count(self, name: str) -> Claim | None:
        assert self.unit is not None
        end = self.unit.end()
        if self.scale or not self.opening or not self._begins() or not self._ends(end):
            return None
        return self._made("wrong-value-in-comment", name, end)


def _modes(line: Line) -> Iterator[Claim]:
    for match in _AC.finditer(line.text):
        mode = (match["before"] or match["after"]).lower()
        start, end = match.span("words" if match["words"] else "said")
        span = (line.start + start, line.start + end)
        words = _MODES.get(mode, (mode,))
        yield Claim("wrong-ac-in-comment", "ac", line, span, words=words)


def _no_checkpoint(line: Line) -> Iterator[Claim]:
    match = _NO_CHECKPOINT.search(line.text)
    if match is not None:
        start = line.start + match.start()
        span = (start, start + len(match[0].rstrip(" .")))
        yield Claim("no-checkpoint-in-comment", "checkpoint_interval", line, span)


def _precision(title: list[Line]) -> Iterator[Claim]:
    """The one precision that the first paragraph names, as an item of its own."""
    found = [
        (line, match) for line in title for match in _PRECISION.finditer(line.text)
    ]
    if len(found) != 1:
        return
    line, match = found[0]
    before, rest = (
        line.text[: match.start()].rstrip(),
        line.text[match.end() :].lstrip(),
    )
    item = before.endswith((",", "(", "+", "&", "\u2014", " -", " in"))
    if item and (not rest or rest[0] in ",.;)+&" or rest.startswith("on ")):
        word = match[0].lower().replace("bfloat", "bf").replace("float", "fp")
        span = (line.start + match.start(), line.start + match.end())
        kind = "wrong-precision-in-comment"
        yield Claim(kind, "precision", line, span, words=(word,), title=True)
