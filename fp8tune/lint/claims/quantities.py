"""Claims in figures, read from the words around each number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fp8tune.lint.claims import BESIDE, Claim, Figure
from fp8tune.lint.claims.prose import Line

MAX_DIGITS = 20

_NUMBER = re.compile(
    r"(?<![\w.,/<>\u2264\u2265+\u2013\u2014-])"
    r"([~\u2248] ?)?([0-9][0-9,]*(?:\.[0-9]+)?)(?: ?([kKMBT])\b)?"
)
_WORD = re.compile(r"[ -]?([A-Za-z_]+)")
_GPUS = (
    r"(?: ?(?:(?:nodes? )?[x\u00d7*]|nodes? of) ?(?P<times>[0-9]{1,6}))?"
    r"(?:(?P<by> ?[x\u00d7] ?)|[ -])"
    r"(?:NVIDIA )?(?:(?P<gpu>GPUs?)|(?:GH|GB|[AHBL])[0-9]{2,3}(?P<many>s| GPUs?)?)\b"
)
_UNITS = dict.fromkeys(("token", "tokens", "tok", "toks"), "tokens")
_UNITS |= dict.fromkeys(("sequences", "seqs", "seq", "samples"), "sequences")
_UNITS |= dict.fromkeys(("params", "parameters"), "parameters")
_UNITS |= {unit: unit for unit in ("steps", "total", "layers", "heads", "experts")}
_UNITS |= {"kv_heads": "kv_heads"}
_CARDS = ("gpu", "h100", "h200", "h800", "a100", "a800", "b100", "b200", "l40")
_RICH = ("batch", "total", "=", "fsdp over", "memory", *_CARDS)
_GIGABYTES = r"(?P<of> ?/ ?[0-9.]+)? ?gi?b\b(?: per gpu)?"
_PEAK = r"peak (?:gpu )?memory(?: per gpu)?(?: is| of)?[ :=]*$"

_LIMITS = ("to", "than", "least", "most", "max", "maximum", "min", "minimum")
_JOINS = ("and", "or", "through")
_MORE = ("+", "/", "per ", "or ", "to ", "and up", "each", "x ", "\u00d7", "*")
_BATCHES = tuple(
    f"{which} batch{end}"
    for which in ("global", "effective")
    for end in ("", " size", " of", " size of")
)
_PER_STEP = tuple(
    f"{per}{which}{what}"
    for per in ("/", " / ", " per ")
    for which in ("", "optimizer ", "training ")
    for what in ("step", "update")
)


def quantities(line: Line) -> Iterator[Claim]:
    """Yield all figures of a comment that are claims."""
    end = 0
    rich: bool | None = None
    for match in _NUMBER.finditer(line.text):
        word = _WORD.match(line.lowered, match.end())
        unit = word if word and word[1] in _UNITS else None
        if unit is None and rich is None:
            words = _RICH if line.header else _RICH[:2]
            rich = any(part in line.lowered for part in words)
        if (unit or rich) and match.start() >= end:
            claim = _Number(line, match, unit).claim()
            if claim is not None:
                end = claim.span[1] - line.start
                yield claim


class _Number:
    """A number in a comment, with the text before and after it."""

    def __init__(
        self, line: Line, match: re.Match[str], unit: re.Match[str] | None
    ) -> None:
        self.line = line
        self.unit = unit
        self.about = match[1] is not None
        self.start = match.start()
        self.digits = match[2].rstrip(",")
        self.scale = match[3] or ""
        self.place = match.start(2)
        self.end = match.end() if self.scale else self.place + len(self.digits)
        self.before = line.lowered[: self.start].rstrip()

    def claim(self) -> Claim | None:
        limited = self.before.rpartition(" ")[2] in (*_LIMITS, *_JOINS)
        if limited or self._goes_on() or len(self.digits) > MAX_DIGITS:
            return None
        if self.unit is None:
            return (
                self._batch()
                or self._named()
                or self._total()
                or self._gpus()
                or self._memory()
            )
        unit, end = _UNITS[self.unit[1]], self.unit.end()
        if unit in ("tokens", "sequences"):
            return self._per_step(unit, end)
        if unit in ("total", "parameters"):
            return self._parameters(unit, end)
        return self._steps(end) if unit == "steps" else self._count(unit, end)

    def _goes_on(self) -> bool:
        """Return whether the number is part of a word, a range or a larger number."""
        text, end = self.line.text, self.end
        sign, digit = text[end : end + 1], text[end + 1 : end + 2]
        word = sign.isalnum() and sign != "x"
        return word or (sign in "-\u2013+/.," and digit.isdigit())

    def _listed(self) -> bool:
        """Return whether the number ends a list of numbers."""
        return self.before.endswith(",") and self.before[-2:-1].isdigit()

    def _made(self, kind: str, name: str, end: int, start: int = -1) -> Claim:
        offset = self.line.start
        span = (offset + (self.start if start < 0 else start), offset + end)
        number = (offset + self.place, offset + self.end)
        bases = (1000,) if name == "parameters" else (1000, 1024)
        exact = name not in ("parameters", "step.tokens", "memory.low_gib")
        figure = Figure(self.digits, self.scale, self.about, exact, bases)
        return Claim(kind, name, self.line, span, number, figure)

    def _rest(self, end: int) -> str:
        return self.line.lowered[end:].lstrip()

    def _ends(self, end: int) -> bool:
        """Return whether the statement ends here."""
        rest = self._rest(end)
        return not rest or rest[0] in ".,;:)(" or rest.startswith("of which")

    def _named(self) -> Claim | None:
        """Return the claim ``name = number``; alone it is a commented-out key."""
        if not self.before.endswith("=") or not self.line.header:
            return None
        left = self.before[:-1].rstrip()
        start = max(map(left.rfind, " (,\u00d7+")) + 1
        rest = self._rest(self.end)
        alone = not left[:start].strip(" -*#") and not rest
        item = not rest or rest[0] in ",.;)(+&\u00d7\u2014" or rest[:2] == "x "
        if not left[start:].isidentifier() or alone or not item:
            return None
        made = self._made("wrong-value-in-comment", left[start:], self.end, start)
        return made._replace(within=2)

    def _batch(self) -> Claim | None:
        start = self._of_batch()
        if start < 0 or self.scale or not self._ends(self.end):
            return None
        return self._made("wrong-batch-in-comment", "step.sequences", self.end, start)

    def _of_batch(self) -> int:
        """Return where a global batch is mentioned right before the number, else -1."""
        before = self.before.rstrip(" =:")
        if not before.endswith(_BATCHES):
            return -1
        return max(map(before.rfind, ("global", "effective")))

    def _total(self) -> Claim | None:
        before = self.before.rstrip(" =:")
        if before.endswith(("total params", "total parameters")):
            return self._size(self.end, before.rindex("total"))
        if before.endswith("fsdp over") and self.line.header:
            start = len(before) - len("fsdp over")
            return self._made("wrong-value-in-comment", "dp_shard", self.end, start)
        return None

    def _size(self, end: int, start: int = -1) -> Claim | None:
        if self.scale not in ("M", "B", "T"):
            return None
        return self._made("wrong-size-in-comment", "parameters", end, start)

    def _gpus(self) -> Claim | None:
        if self.scale or "." in self.digits or not self.line.header:
            return None
        gpus = re.compile(_GPUS).match(self.line.text, self.end)
        if gpus is None or self._rest(gpus.end()).startswith(_MORE) or self._listed():
            return None
        if "node" in self.before or not (
            gpus["gpu"] or gpus["many"] or gpus["times"] or gpus["by"]
        ):
            return None
        made = self._made("wrong-gpus-in-comment", "world_size", gpus.end())
        made = made._replace(within=1, first=True)
        if not gpus["times"] or made.figure is None:
            return made
        total = int(made.figure.value) * int(gpus["times"])
        figure = made.figure._replace(digits=str(total))
        return made._replace(number=(0, 0), figure=figure)

    def _memory(self) -> Claim | None:
        """Return a claim about a GPU's peak or used memory."""
        size = re.match(_GIGABYTES, self.line.lowered[self.end :])
        if size is None or self.scale or not self.line.header:
            return None
        peak = re.search(_PEAK, self.before)
        if not peak and not (size["of"] and self.before.strip(" :=-*") == "memory"):
            return None
        start = peak.start() if peak else self.before.index("memory")
        kind = "wrong-memory-in-comment"
        return self._made(kind, "memory.low_gib", self.end + size.end(), start)

    def _per_step(self, unit: str, end: int) -> Claim | None:
        rest = self.line.lowered[end:]
        behind = rest.removeprefix(")")
        per = next((per for per in _PER_STEP if behind.startswith(per)), "")
        if per:
            end += len(rest) - len(behind) + len(per)
        elif self._of_batch() < 0 and not (unit == "sequences" and self._product()):
            return None
        if self._rest(end).startswith(_MORE):
            return None
        if unit == "sequences":
            return self._made("wrong-batch-in-comment", "step.sequences", end)
        return self._made("wrong-tokens-in-comment", "step.tokens", end)

    def _product(self) -> bool:
        """Return whether the number is stated as a product of three or more factors."""
        left, equals, gap = self.before.rpartition("=")
        factors = left.rpartition("=")[2].replace("\u00d7", " x ").replace("*", " x ")
        return equals != "" and not gap.strip() and factors.count(" x ") > 1

    def _parameters(self, unit: str, end: int) -> Claim | None:
        text = self.line.text
        if unit == "total":
            word = _WORD.match(text, end)
            if word and word[1] in ("params", "parameters"):
                end = word.end()
            elif not any(part in text for part in ("param", "active", "train")):
                return None
        found = self._size(end) if self._ends(end) else None
        if found is None or unit == "total":
            return found
        return found._replace(within=2) if "." in self.digits else None

    def _steps(self, end: int) -> Claim | None:
        kind, rest = "wrong-value-in-comment", self._rest(end)
        words = self.before.split()
        if words[-2:] == ["checkpoint", "every"]:
            start = self.before.rindex("checkpoint")
            return self._made(kind, "checkpoint_interval", end, start)
        product = rest[:1] in ("x", "\u00d7", "*") and "tokens/step" in rest
        runs = words[-3:-1] == ["this", "config"] and words[-1] in ("runs", "trains")
        if self.line.inline and not words and not rest.strip("."):
            return self._made(kind, BESIDE, end)
        runs = runs and not rest.startswith(_MORE)
        return self._made(kind, "max_steps", end) if product or runs else None

    def _count(self, name: str, end: int) -> Claim | None:
        before = self.before
        item = not before or before[-1] in ",;:(+" or before.endswith(" with")
        if self.scale or not item or not self._ends(end) or not self.line.header:
            return None
        return self._made("wrong-value-in-comment", name, end)._replace(within=2)
