"""Read a training log: its steps, what it says of FP8, and the signs of failures.

Lines are told apart by their shape, which is the line without digits and colours: a log
has millions of lines and few shapes. Only a line whose shape has a trigger of a pattern
or a cause is decoded and matched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Protocol

from fp8tune.verify import lines, patterns, settings
from fp8tune.verify.evidence import Event, Log, Mention, Sign
from fp8tune.verify.steps import Steps

SHAPES = 20_000
"""Shapes that are remembered."""

LONG = 512
"""Bytes of a shape that is remembered."""

SIGNS = 40
"""Lines of a cause that are kept; further ones are counted."""

MENTIONS = 200
"""Lines on FP8 that are kept."""

SHOWN = 400
"""Characters of a line that are kept."""

DIGITS = b"0123456789"


class Cause(Protocol):
    """A cause of failures that leaves lines in a log, each with one of its triggers."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def triggers(self) -> tuple[bytes, ...]: ...  # noqa: D102
    @property
    def pattern(self) -> re.Pattern[str]: ...  # noqa: D102


def read(path: str, trainer: str = "", causes: Sequence[Cause] = ()) -> Log:
    """Read a whole log; raises ``lines.Unreadable`` if it is none."""
    with open(path, "rb") as file:
        return read_file(file, path, trainer, causes)


def read_file(
    file: BinaryIO, path: str = "", trainer: str = "", causes: Sequence[Cause] = ()
) -> Log:
    """Read a log from an open file to its end."""
    reader = Reader(path, trainer, causes)
    while block := file.read(lines.BLOCK):
        reader.feed(block)
    return reader.finish()


class Reader:
    """Reads a log block by block; ``log`` is what it has said so far.

    ``trainer`` is its name, if the caller knows whose log it is.
    """

    def __init__(
        self, path: str = "", trainer: str = "", causes: Sequence[Cause] = ()
    ) -> None:
        self.log = Log(path)
        self._trainer = trainer
        self._decoder = lines.Decoder()
        self._cutter = lines.Cutter()
        self._shapes = Shapes(causes)
        self._steps: dict[str, Steps] = {}
        self._seen: dict[str, set[str]] = {}
        self._mentioned: set[Any] = set()
        self._phase = 0

    def feed(self, block: bytes) -> None:
        """Read on."""
        self.log.size += len(block)
        for plain in self._decoder.feed(block):
            self._scan(self._cutter.feed(plain))
        self._judge()

    def finish(self) -> Log:
        """Read the last line and return what the log says."""
        for plain in self._decoder.feed(b"", last=True):
            self._scan(self._cutter.feed(plain))
        if rest := self._cutter.rest():
            self._scan(rest)
            self.log.lines += not rest.endswith(b"\r")
        self.log.cut = self._decoder.cut
        self._judge()
        return self.log

    def _scan(self, block: bytes) -> None:
        """Read whole lines."""
        if not block:
            return
        first = self.log.lines + 1
        self.log.lines += block.count(b"\n")
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        shapes = self._shapes.of(block)
        wanted = self._shapes.wanted(shapes)
        if not wanted:
            return
        numbers = None
        if b"\r" in block:
            numbers = _numbers(block, first)
            block = block.replace(b"\r", b"\n")
        found = [index for index, shape in enumerate(shapes) if shape in wanted]
        parts = block.split(b"\n")
        for index in self._thinned(found, shapes, wanted):
            number = numbers[index] if numbers else first + index
            self._line(number, parts[index], wanted[shapes[index]])

    def _thinned(
        self, found: list[int], shapes: list[bytes], wanted: dict[bytes, Wanted]
    ) -> list[int]:
        """Leave out lines of steps that a long curve does not keep."""
        every = max((steps.every for steps in self._steps.values()), default=1)
        if every == 1:
            return found
        plain = {shape for shape, lines in wanted.items() if lines.only_steps}
        steps = [index for index in found if shapes[index] in plain]
        kept = steps[-self._phase % every :: every]
        self._phase = (self._phase + len(steps)) % every
        return sorted({*kept, *(n for n in found if shapes[n] not in plain)})

    def _line(self, number: int, line: bytes, wanted: Wanted) -> None:
        text, rank = lines.clean(line)
        if rank is not None:
            self.log.ranks.add(rank)
        if text.startswith("{") and wanted.lines:
            self._match(number, text, rank, wanted)
            for message in lines.messages(text):
                self._match(number, message, rank, wanted)
        else:
            self._match(number, text, rank, wanted)

    def _match(self, number: int, text: str, rank: int | None, wanted: Wanted) -> None:
        for cause in wanted.causes:
            if match := cause.pattern.search(text):
                self._sign(cause.name, number, text, rank, match)
        for line in wanted.lines:
            if match := line.pattern.search(text):
                self._seen.setdefault(line.trainer, set()).add(line.name)
                KINDS[line.kind](self, line, number, text, rank, match)

    def _sign(
        self, name: str, number: int, text: str, rank: int | None, match: re.Match[str]
    ) -> None:
        count = self.log.sign_counts.get(name, 0)
        self.log.sign_counts[name] = count + 1
        if count < SIGNS:
            values = {key: value or "" for key, value in match.groupdict().items()}
            self.log.signs.append(Sign(name, number, text[:SHOWN], values, rank))

    def _step(
        self,
        line: patterns.Line,
        number: int,
        text: str,
        rank: int | None,
        match: re.Match[str],
    ) -> None:
        values = quantities(line, text, match)
        self._steps.setdefault(line.trainer, Steps()).add(number, rank, values)

    def _mention(
        self,
        line: patterns.Line,
        number: int,
        text: str,
        rank: int | None,
        match: re.Match[str],
    ) -> None:
        count, says = None, line.kind
        if line.kind == "counts":
            count = int(lines.number(match["count"]))
            says = "proves" if count else "denies"
        key = (line.trainer, line.name, says, count, len(self._curves()))
        if key not in self._mentioned and len(self.log.mentions) < MENTIONS:
            self._mentioned.add(key)
            self.log.mentions.append(
                Mention(says, line.name, number, text[:SHOWN], count, rank)  # type: ignore[arg-type]
            )

    def _started(
        self,
        line: patterns.Line,
        number: int,
        text: str,
        rank: int | None,
        match: re.Match[str],
    ) -> None:
        for steps in self._steps.values():
            steps.restart()
        self.log.ended = None
        self._setting(line, number, text, rank, match)

    def _ended(
        self,
        line: patterns.Line,
        number: int,
        text: str,
        rank: int | None,
        match: re.Match[str],
    ) -> None:
        del number, text, rank
        if line.kind == "stops":
            self.log.ended = False
        elif self.log.ended is None:
            last = lines.number(match.groupdict().get("step") or "")
            self.log.ended = not last < lines.number(self._value("max_steps"))

    def _setting(
        self,
        line: patterns.Line,
        number: int,
        text: str,
        rank: int | None,
        match: re.Match[str],
    ) -> None:
        del line, number, text, rank
        found = {name: value for name, value in match.groupdict().items() if value}
        if len(self.log.settings) < settings.MOST:
            self.log.settings |= found

    def _config(
        self,
        line: patterns.Line,
        number: int,
        text: str,
        rank: int | None,
        match: re.Match[str],
    ) -> None:
        del number, text, rank
        values = settings.printed(match["config"])
        if len(self.log.settings) < settings.MOST:
            names = patterns.known()[line.trainer].settings
            own = {name: values[key] for name, key in names.items() if key in values}
            self.log.settings |= values | own

    def _event(
        self,
        line: patterns.Line,
        number: int,
        text: str,
        rank: int | None,
        match: re.Match[str],
    ) -> None:
        del rank, match
        event = self.log.events.setdefault(line.name, Event(number, text[:SHOWN], 0))
        event.count += 1

    def _value(self, name: str) -> str:
        return self.log.settings.get(name, "")

    def _curves(self) -> list[Any]:
        return next((steps.curves for steps in self._steps.values()), [])

    def _judge(self) -> None:
        """Decide whose log it is, and whose steps are the curve."""
        known = patterns.known()
        named = [name for name in self._seen if name == self._trainer] or list(
            self._seen
        )
        inner = {other for name in named for other in known[name].includes}
        order = sorted(
            (name for name in named if name not in inner),
            key=lambda name: (-len(self._seen[name]), name),
        )
        if not order:
            return
        log, trainer = self.log, known[order[0]]
        log.trainer = trainer.name
        for name in (trainer.name, *trainer.includes):
            if steps := self._steps.get(name):
                log.starts = steps.curves
                break


def quantities(
    line: patterns.Line, text: str, match: re.Match[str]
) -> dict[str, float]:
    """Return the quantities of a logged step, in the units of the curve."""
    texts = {name: value for name, value in match.groupdict().items() if value}
    for name, field in line.fields.items():
        if hit := field.search(text):
            texts[name] = hit[1]
    return {
        name: lines.number(value) * line.scale.get(name, 1.0)
        for name, value in texts.items()
    }


KINDS = {
    "step": Reader._step,
    "asks": Reader._mention,
    "claims": Reader._mention,
    "counts": Reader._mention,
    "denies": Reader._mention,
    "starts": Reader._started,
    "ends": Reader._ended,
    "stops": Reader._ended,
    "setting": Reader._setting,
    "config": Reader._config,
    "event": Reader._event,
}


class Wanted:
    """What a line of one shape may match."""

    def __init__(self) -> None:
        self.lines: list[patterns.Line] = []
        self.causes: list[Cause] = []
        self.only_steps = False


class Shapes:
    """The shapes of a log's lines, and which patterns each may match."""

    def __init__(self, causes: Sequence[Cause]) -> None:
        self._by_trigger: dict[bytes, Wanted] = {}
        for trainer in patterns.known().values():
            for line in trainer.lines:
                for trigger in line.triggers:
                    self._at(trigger).lines.append(line)
        for cause in causes:
            for trigger in cause.triggers:
                self._at(trigger).causes.append(cause)
        self._known: dict[bytes, Wanted | None] = {}

    def _at(self, trigger: bytes) -> Wanted:
        return self._by_trigger.setdefault(trigger.translate(None, DIGITS), Wanted())

    def of(self, block: bytes) -> list[bytes]:
        """Return the shapes of its lines; each state of a progress bar is a line."""
        shapes = block.translate(None, DIGITS)
        if b"\x1b" in shapes:
            for code in (b"\x1b[m", b"\x1b[;m", b"\x1b[;;m", b"\x1b[K", b"\x1b[A"):
                shapes = shapes.replace(code, b"")
        if b"\r" in shapes:
            shapes = shapes.replace(b"\r", b"\n")
        return shapes.split(b"\n")

    def wanted(self, shapes: list[bytes]) -> dict[bytes, Wanted]:
        """Return the shapes that have a trigger."""
        unique = set(shapes)
        new = unique.difference(self._known)
        found = self._search(new)
        if len(self._known) + len(new) > SHAPES:
            self._known.clear()
        for shape in new:
            if len(shape) <= LONG:
                self._known[shape] = found.get(shape)
        for shape in unique - new:
            if wanted := self._known.get(shape):
                found[shape] = wanted
        return found

    def _search(self, new: set[bytes]) -> dict[bytes, Wanted]:
        found: dict[bytes, Wanted] = {}
        text = b"\n".join(new)
        for trigger, wanted in self._by_trigger.items():
            if trigger in text:
                for shape in new:
                    if trigger in shape:
                        both = found.setdefault(shape, Wanted())
                        both.lines += [n for n in wanted.lines if n not in both.lines]
                        both.causes += [
                            n for n in wanted.causes if n not in both.causes
                        ]
        for shape, both in found.items():
            steps = all(line.kind == "step" for line in both.lines)
            lower = shape.lower()
            both.only_steps = (
                steps
                and not both.causes
                and b"nan" not in lower
                and b"inf" not in lower
            )
        return found


def _numbers(block: bytes, first: int) -> list[int]:
    """Return the line number of each state of progress bars in a block."""
    return [
        first + index
        for index, line in enumerate(block.split(b"\n"))
        for _ in range(line.count(b"\r") + 1)
    ]
