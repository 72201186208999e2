"""Bytes of a log, as they come, to lines of text.

Memory stays bounded: blocks are cut to whole lines, a line to ``LONGEST`` bytes.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator

LONGEST = 1 << 16
"""Bytes of a line that are read; the rest of a longer one is skipped."""

ANSI = re.compile(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])"
)
CONTROL = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])
BINARY = bytes({*range(7), *range(14, 27), *range(28, 32), 127})
PREFIX = re.compile(
    r"""\s*+(?:
    (?:[\w.-]{1,64}/\d{1,6}[ ])?                      # as NeMo-Run names its jobs
    (?:\[(?:rank|default|trainer)[ _]?(\d{1,6})\]:?|(\d{1,6}):)  # torchrun, srun
    (?:\s|(?<=\]:))
    |\[(?:[\w.-]{1,64}@)?\d{1,6},(\d{1,6})\]          # mpirun --tag-output
    (?:<std(?:out|err)>)?:\s?
    |\[(\d{1,6})\][ ]                                # mpiexec -prepend-rank
    |\((?:[\w.:-]{1,80}[ ])?pid=\d{1,9}(?:,[ ]ip=[\w.:]{1,45})?\)\s      # Ray
    |\[pod/[^\]\s]{1,200}\][ ]                      # kubectl logs --prefix
    |(?:\d{1,3}(?:\.\d{1,3}){3}                      # pdsh, docker compose: a host
      |(?!float|step|iter|epoch|layer)
      (?:[a-z]{3,40}\d{1,6}[a-z0-9-]{0,40}|[a-z][a-z0-9]{0,40}-[a-z0-9-]{0,40}\d)
      (?:\.[a-z][\w-]{0,40}){0,6})(?::[ ]|[ ]{1,20}\|[ ])
    |\[?+(?:\d{4}-\d\d-\d\d[T_ ])?\d\d:\d\d:\d\d      # a time stamp
      (?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?+\s(?!\s*-[ ])
    |[A-Z][a-z]{2}[ ]{1,2}\d{1,2}[ ]\d\d:\d\d:\d\d[ ]
      [\w.-]{1,64}[ ][\w./-]{1,64}\[\d{1,9}\]:[ ]       # journald
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""What a launcher puts before a line; a group is the rank, where it says that."""

TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])\b")
SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MESSAGES = ("message", "msg", "text", "event", "log")


class Unreadable(Exception):
    """The file is no log; the message says what it is."""


class Head:
    """The beginning of a log, until enough of it is there to tell whether it is one."""

    def __init__(self) -> None:
        self._head = b""
        self._is_judged = False
        self._utf16: codecs.IncrementalDecoder | None = None

    def feed(self, block: bytes, last: bool = False) -> bytes:
        """Return what can be read on, in UTF-8; ``last`` is whether no more will come.

        Raises ``Unreadable``.
        """
        if self._utf16:
            return self._utf16.decode(block).encode()
        if self._is_judged:
            return block
        self._head += block
        if not (last or len(self._head) >= 4096 or b"\n" in self._head):
            return b""
        head, self._head, self._is_judged = self._head, b"", True
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            self._utf16 = codecs.getincrementaldecoder("utf-16")("replace")
            return self._utf16.decode(head).encode()
        head = head.removeprefix(codecs.BOM_UTF8)
        if _is_binary(head.lstrip(b"\0")):
            raise Unreadable("binary data, not a log")
        return head


def _is_binary(head: bytes) -> bool:
    """Whether more than a tenth of the first bytes are of no text."""
    head = head[:4096]
    lost = len(head) - len(head.decode("utf-8", "ignore").encode())
    control = len(head) - len(head.translate(None, BINARY))
    return max(lost, control) * 10 > len(head)


class Cutter:
    """Cut blocks at their last line end.

    A line that is too long ends with a carriage return, as do the states of a progress
    bar: what follows it is of the same line.
    """

    def __init__(self) -> None:
        self._left = b""
        self._skip = False

    def feed(self, block: bytes) -> bytes:
        """Return the whole lines so far, and keep what follows the last line end."""
        if self._skip:
            end = block.find(b"\n")
            if end < 0:
                return b""
            block, self._skip = block[end:], False
        end = block.rfind(b"\n") + 1
        whole = b"".join((self._left, memoryview(block)[:end])) if end else b""
        left = block[end:] if end else self._left + block
        if len(left) > LONGEST:
            begin, bar, left = left.rpartition(b"\r")
            if len(left) > LONGEST:
                begin, left, self._skip = begin + bar + left[:LONGEST], b"", True
            whole += begin + b"\r"
        self._left = left
        return whole

    def rest(self) -> bytes:
        """Return the last line, which has no end."""
        left, self._left = self._left, b""
        return left


def clean(line: bytes) -> tuple[str, int | None]:
    """Return a line without colours, padding and what launchers put before it.

    Beside it stands the rank that such a prefix names, None if none does.
    """
    text = line[:LONGEST].decode("utf-8", "replace")
    if not text.isprintable():
        text = ANSI.sub("", text)
        if not text.isprintable():
            text = text.translate(CONTROL)
    rank = None
    while match := PREFIX.match(text):
        if match.lastindex:
            rank = int(match[match.lastindex])
        text = text[match.end() :]
    return text.rstrip(), rank


def messages(text: str) -> Iterator[str]:
    """Yield the lines of a log that is JSON lines: the message of the record."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return
    record = record.get("record", record) if isinstance(record, dict) else {}
    if isinstance(record, dict):
        for key in MESSAGES:
            if isinstance(message := record.get(key), str):
                yield from message.splitlines()


def number(text: str) -> float:
    """Return a number as logs write them, NaN where there is none.

    It may have commas for thousands, quotes, a percent sign, or units of time:
    ``2m 5s`` is 125.
    """
    text = text.strip("'\"% ").replace(",", "")
    try:
        return float(text)
    except ValueError:
        parts = TIME.findall(text)
    if not parts or TIME.sub("", text).strip():
        return math.nan
    return sum(float(amount) * SECONDS[unit] for amount, unit in parts)
