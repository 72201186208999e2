"""Read a training log: its steps, what it says of FP8, and the signs of failures."""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

from fp8tune.verify import lines, patterns, settings
from fp8tune.verify.evidence import Event, Log, Mention, Sign
from fp8tune.verify.shapes import Shapes, Text, Wanted, shapes_of
from fp8tune.verify.steps import Steps, fill, quantities
from fp8tune.verify.unpack import Blocks

SIGNS = 40
"""Lines of a cause that are kept; further ones are counted."""

MENTIONS = 200
"""Lines on FP8 that are kept."""

RANKS = 100_000
"""Ranks that are remembered."""

PREFIX = 200
"""Bytes of a line in which its rank stands."""

UNREAD = 10
"""Lines that look like steps and cannot be read, of which the last are kept."""

SHOWN = 400
"""Characters of a line that are kept."""


def read(
    path: str,
    trainer: str = "",
    causes: Sequence[Text] = (),
    *,
    growing: bool = False,
) -> Log:
    """Read a log; raises ``lines.Unreadable`` if it is none.

    Of one that is ``growing`` a last line without an end is left out.
    """
    with open(path, "rb") as file:
        return read_file(file, path, trainer, causes, growing=growing)


def read_file(
    file: BinaryIO,
    path: str = "",
    trainer: str = "",
    causes: Sequence[Text] = (),
    *,
    growing: bool = False,
) -> Log:
    """Read a log from an open file to its end."""
    reader, blocks = Reader(path, trainer, causes), Blocks(file)
    for block in blocks:
        reader.feed(block)
    reader.log.cut = blocks.cut
    return reader.log if growing else reader.finish()


@lru_cache(maxsize=2)
def _shapes(causes: tuple[Text, ...], trainers: tuple[int, ...]) -> Shapes:  # noqa: ARG001
    """Return the shapes of logs, which all logs share: a folder may hold thousands.

    ``trainers`` tells the trainers that are described: a user's may have been added.
    """
    return Shapes(causes)


class Hit(NamedTuple):
    """A line of the log that a pattern matches."""

    line: patterns.Line
    number: int
    text: str
    rank: int | None
    match: re.Match[str]


class Reader:
    """Reads a log block by block; ``log`` is what it has said so far.

    ``trainer`` is its name, if the caller knows whose log it is. Tokens, times and
    numbers of steps that the log does not print but imply are there after ``finish``.
    """

    def __init__(
        self, path: str = "", trainer: str = "", causes: Sequence[Text] = ()
    ) -> None:
        self.log = Log(path)
        self.unread: deque[str] = deque(maxlen=UNREAD)
        """The last lines with a trigger of the trainer's steps, but not their form."""
        self._trainer = trainer
        self._head = lines.Head()
        self._cutter = lines.Cutter()
        self._shapes = _shapes(tuple(causes), tuple(map(id, patterns.known().values())))
        self._steps: dict[str, Steps] = {}
        self._seen: defaultdict[str, set[str]] = defaultdict(set)
        self._lines: dict[tuple[str, str], int] = {}
        self._mentioned: set[Any] = set()
        self._epochs = 0.0
        self._pace = math.nan
        self._step_line = 0
        self._skipped = 0
        self._last_index: int | None = None
        self._last: tuple[int, bytes, Wanted] | None = None

    @property
    def any_seen(self) -> bool:
        """Whether any line of the trainer was read."""
        return bool(self._seen.get(self.log.trainer))

    def feed(self, block: bytes) -> None:
        """Read on."""
        self._scan(self._cutter.feed(self._head.feed(block)))
        self._choose_trainer()

    def finish(self) -> Log:
        """Read the last line and return what the log says."""
        self._scan(self._cutter.feed(self._head.feed(b"", last=True)))
        if rest := self._cutter.rest():
            self._scan(rest)
            self.log.lines += 1
        self._add_last()
        for steps in self._steps.values():
            steps.number(self._steps_per_epoch())
        self._choose_trainer()
        if self.log.trainer:
            fill(self.log, patterns.known()[self.log.trainer])
        return self.log

    def _scan(self, block: bytes) -> None:
        """Read whole lines."""
        first, numbers = self.log.lines + 1, None
        if bars := b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        shapes = shapes_of(block)
        self.log.lines += block.count(b"\n") if bars else len(shapes) - 1
        wanted = self._shapes.wanted(shapes)
        if not wanted:
            return
        if bars:
            numbers = _numbers(block, first)
            block = block.replace(b"\r", b"\n")
        parts = block.split(b"\n")
        found = [index for index, shape in enumerate(shapes) if shape in wanted]
        if self._every() > 1:
            found = self._thinned(found, shapes, parts, wanted)
        number_of = numbers.__getitem__ if numbers else first.__add__
        for index in found:
            self._line(number_of(index), parts[index], wanted[shapes[index]])
        if self._last_index is not None:
            index = self._last_index
            self._last = number_of(index), parts[index], wanted[shapes[index]]

    def _every(self) -> int:
        return max((steps.every for steps in self._steps.values()), default=1)

    def _thinned(
        self,
        found: list[int],
        shapes: list[bytes],
        parts: list[bytes],
        wanted: dict[bytes, Wanted],
    ) -> list[int]:
        """Leave out lines of steps that a long curve does not keep."""
        every = self._every()
        steps = {shape for shape, each in wanted.items() if each.thinnable}
        thinnable, others = found, []
        if len(steps) < len(wanted):
            thinnable = [index for index in found if shapes[index] in steps]
            others = [index for index in found if shapes[index] not in steps]
        if len(self.log.ranks) > 1:
            own = {each.rank for each in self._steps.values()}
            ranks = (lines.clean(parts[index][:PREFIX])[1] for index in thinnable)
            pairs = zip(thinnable, ranks, strict=True)
            thinnable = [index for index, rank in pairs if rank in own]
        kept = thinnable[-self._skipped % every :: every]
        self._skipped = (self._skipped + len(thinnable)) % every
        self._last_index = thinnable[-1] if thinnable else None
        return sorted(kept + others)

    def _add_last(self, before: float = math.inf) -> None:
        """Add the last step before a line, even if it was left out."""
        if self._last and self._last[0] < before:
            number, line, wanted = self._last
            self._last = self._last_index = None
            if number > self._step_line:
                self._line(number, line, wanted)

    def _is_of_no_curve(self, rank: int | None, wanted: Wanted) -> bool:
        """Whether a line can only be the step of a rank that has no curve."""
        if rank is None or not wanted.thinnable:
            return False
        for line in wanted.lines:
            steps = self._steps.get(line.trainer)
            if steps is None or steps.rank is None or rank <= steps.rank:
                return False
        return True

    def _line(self, number: int, line: bytes, wanted: Wanted) -> None:
        text, rank = lines.clean(line)
        if rank is not None and len(self.log.ranks) < RANKS:
            self.log.ranks.add(rank)
        if self._is_of_no_curve(rank, wanted):
            return
        self._match(number, text, rank, wanted)
        if text.startswith("{"):
            for message in lines.messages(text):
                self._match(number, message, rank, wanted)

    def _match(self, number: int, text: str, rank: int | None, wanted: Wanted) -> None:
        for cause in wanted.causes:
            if match := cause.pattern.search(text):
                self._sign(cause.name, number, text, rank, match)
        for line in wanted.lines:
            if match := line.pattern.search(text):
                if self._placed(line, number):
                    READ[line.kind](self, Hit(line, number, text, rank, match))
            elif line.kind == "step" and line.trainer == self._trainer:
                self.unread.append(text[:SHOWN])

    def _placed(self, line: patterns.Line, number: int) -> bool:
        """Note where a line stands; whether it counts there."""
        counts = (
            not line.after or self._lines.get((line.trainer, line.after)) == number - 1
        )
        self._lines[line.trainer, line.name] = number
        if counts and line.names:
            self._seen[line.trainer].add(line.name)
        return counts

    def _sign(
        self, name: str, number: int, text: str, rank: int | None, match: re.Match[str]
    ) -> None:
        count = self.log.sign_counts.get(name, 0)
        self.log.sign_counts[name] = count + 1
        if count < SIGNS:
            values = {key: value or "" for key, value in match.groupdict().items()}
            self.log.signs.append(Sign(name, number, text[:SHOWN], values, rank))

    def _step(self, hit: Hit) -> None:
        values = quantities(hit.line, hit.text, hit.match)
        for name, factor in hit.line.scale.items():
            if name in values:
                values[name] *= self._factor(factor)
        if epoch := values.get("epoch"):  # the progress bar stands at this step
            self._pace = lines.number(self._setting_of("steps_done")) / epoch
        if hit.line.trainer not in self._steps:
            self._steps[hit.line.trainer] = Steps()
        self._steps[hit.line.trainer].add(hit.number, hit.rank, values)
        self._step_line = hit.number

    def _factor(self, factor: float | str) -> float:
        if not isinstance(factor, str):
            return factor
        value = lines.number(self._setting_of(factor))
        if factor == "world_size" and math.isnan(value):
            self.log.per_gpu = True
            return 1.0
        return value

    def _mention(self, hit: Hit) -> None:
        count, says = None, hit.line.kind
        if hit.line.kind == "counts":
            count = int(hit.match["count"][:9])
            says = "proves" if count else "denies"
        start = sum(len(steps.curves) for steps in self._steps.values())
        key = (hit.line.trainer, hit.line.name, count, start)
        if key not in self._mentioned and len(self.log.mentions) < MENTIONS:
            self._mentioned.add(key)
            name, text = hit.line.name, hit.text[:SHOWN]
            mention = Mention(says, name, hit.number, text, count, hit.rank)  # type: ignore[arg-type]
            self.log.mentions.append(mention)

    def _started(self, hit: Hit) -> None:
        self._add_last(hit.number)
        self._skipped = 0
        for steps in self._steps.values():
            steps.restart()
        self.log.ended = None
        self.log.began = True
        self._settings(hit)

    def _ended(self, hit: Hit) -> None:
        values = hit.match.groupdict()
        if self.log.ended is None:
            last = lines.number(values.get("step") or "")
            self.log.ended = not last < lines.number(self._setting_of("max_steps"))
        self._epochs = lines.number(values.get("epoch") or "0")

    def _stopped(self, _hit: Hit) -> None:
        self.log.ended = False

    def _settings(self, hit: Hit) -> None:
        values = {key: value for key, value in hit.match.groupdict().items() if value}
        for name, factors in hit.line.product.items():
            there = [values[factor] for factor in factors if factor in values]
            product = math.prod(map(lines.number, there))
            values[name] = f"{product:.0f}"
        self._set(values)

    def _config(self, hit: Hit) -> None:
        values = settings.printed(hit.match["config"])
        names = patterns.known()[hit.line.trainer].settings
        self._set(values)
        self._set({name: values[own] for name, own in names.items() if own in values})

    def _set(self, values: dict[str, str]) -> None:
        for name, value in values.items():
            if name in self.log.settings or len(self.log.settings) < settings.MOST:
                self.log.settings[name] = value[:SHOWN]

    def _event(self, hit: Hit) -> None:
        name, text = hit.line.name, hit.text[:SHOWN]
        self.log.events.setdefault(name, Event(hit.number, text, 0)).count += 1

    def _steps_per_epoch(self) -> float:
        """Return what turns epochs to steps, from the best that the log has."""
        known = lines.number(self._setting_of("steps_per_epoch"))
        if not math.isnan(known):
            return known
        if self._epochs:  # of the run's last line
            return lines.number(self._setting_of("max_steps")) / self._epochs
        return self._pace

    def _setting_of(self, name: str) -> str:
        return self.log.settings.get(name, "")

    def _choose_trainer(self) -> None:
        """Decide whose log it is, and which steps are its curve."""
        known = patterns.known()
        seen = [name for name in self._seen if known[name].trainer]
        inner = {other for name in seen for other in known[name].includes}
        outer = [name for name in seen if name not in inner]
        if self._trainer in known:
            outer = [self._trainer]
        if not outer:
            return
        self.log.trainer = max(outer, key=lambda name: len(self._seen[name]))
        for name in (self.log.trainer, *known[self.log.trainer].includes):
            if name in self._steps:
                self.log.starts = self._steps[name].curves
                break


READ: dict[patterns.Kind, Callable[[Reader, Hit], None]] = {
    "step": Reader._step,
    "asks": Reader._mention,
    "declines": Reader._mention,
    "claims": Reader._mention,
    "proves": Reader._mention,
    "counts": Reader._mention,
    "denies": Reader._mention,
    "starts": Reader._started,
    "ends": Reader._ended,
    "stops": Reader._stopped,
    "setting": Reader._settings,
    "config": Reader._config,
    "event": Reader._event,
}


def _numbers(block: bytes, first: int) -> list[int]:
    """Return the line number of each state of progress bars in a block."""
    return [
        first + index
        for index, line in enumerate(block.split(b"\n"))
        for _ in range(line.count(b"\r") + 1)
    ]
