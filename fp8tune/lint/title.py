"""Read how many GPUs the title of a config names, and compare it with the file.

The title is the first sentence of the first comment above all keys:
``# Llama-3 7B on 4 nodes x 8 H100``. A title that names two numbers, or that compares
or supposes, names none.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from fp8tune.config.directive import PROJECT, Directive
from fp8tune.formats.document import ConfigDocument, Span
from fp8tune.job import Job, Target, Unknown, Words
from fp8tune.trainers.faults import TITLED, Fault

MAX_LENGTH = 400
"""Characters of a title that are read."""

_DEGREES = ("dp_replicate", "tp", "pp", "cp", "ep")
_HEADER = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?+\r?\n)*+(?:[ \t]*+#[^\n]*+)?+")
_COMMENT = re.compile(
    r"(?m)^[ \t]*+#++[ \t]*+(?!fp8tune\b|!|SBATCH\b)(?=[^\s#])[^\n]*"
    r"(?:\n[ \t]*+#++[^\S\n]*+\w[^\n]*+)*+"
)
_SENTENCE = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bca)[.;!](?=\s|$)")
_GPUS = re.compile(
    r"(?<![\w.,/<>\u2264\u2265+\u2013\u2014-])(?P<number>[0-9]{1,6})"
    r"(?: ?(?:(?:nodes? )?[x\u00d7*]|nodes? of) ?(?P<times>[0-9]{1,6}))?"
    r"(?:(?P<by> ?[x\u00d7] ?)|[ -])"
    r"(?:NVIDIA )?(?:(?P<gpu>GPUs?)|(?:GH|GB|[AHBL])[0-9]{2,3}(?P<many>s| GPUs?)?)\b"
    r"(?! ?(?:[+/x\u00d7*]|per\b|or\b|to\b|and up\b|each\b))"
)
_BEFORE = re.compile(
    r"(?:\b(?:to|than|least|most|max|maximum|min|minimum|and|or|through)"
    r"|[0-9],|[x\u00d7*]) ?$"
)
_HEDGED = re.compile(
    r"[<>?$\u2264\u2265]|--|\.(?:toml|py|sh|yaml)\b|\b(?:vs|versus|against|unlike|like|than"
    r"|twin|instead|rather|compared?|alternatives?|if|when|unless|example|assum\w+|could"
    r"|may|might|can|cannot|was|were|before|originally|old|new|needs?|required?|defaults?"
    r"|others?|base|baseline|either|not|without|fits?|variants?|should|would|try)\b"
)


class Titled(NamedTuple):
    """The number of GPUs of a title, and the words that name it."""

    gpus: int
    span: Span


def titled(document: ConfigDocument) -> Titled | None:
    """Return what the title of a config says of its GPUs; ``None`` if nothing."""
    header = _HEADER.match(document.text)
    comment = header and _COMMENT.search(document.text, 0, header.end())
    if comment is None:
        return None
    title = comment[0][:MAX_LENGTH]
    end = _SENTENCE.search(title)
    title = title[: end.start()] if end else title
    if _HEDGED.search(title.replace("->", "").lower()):
        return None
    numbers = [*_numbers(title, comment.start())]
    return numbers[0] if len({each.gpus for each in numbers}) == 1 else None


def _numbers(title: str, start: int) -> Iterator[Titled]:
    for match in _GPUS.finditer(title):
        times = int(match["times"] or 0)
        several = match["gpu"] or match["many"] or times or match["by"]
        if several and not _BEFORE.search(title, 0, match.start()):
            span = start + match.start(), start + match.end()
            yield Titled(int(match["number"]) * (times or 1), span)


def gpus_of(document: ConfigDocument) -> tuple[int, int]:
    """Return how many GPUs a title names, and on which line; 0 if none."""
    title = titled(document)
    if title is None:
        return 0, 0
    return title.gpus, document.lines.position(title.span[0]).line


def contradiction(
    document: ConfigDocument, job: Job, directive: Directive, target: Target
) -> Iterator[Fault]:
    """Yield the fault of a title with another number of GPUs than the file has.

    ``job`` is that of the file alone, ``target`` what the command line or the project
    says.
    """
    title = titled(document)
    if title is None:
        return
    try:
        against = _against(title.gpus, job, directive, target)
    except (Unknown, ArithmeticError, TypeError, ValueError):  # degrees that are odd
        return
    if against is None:
        return
    size, working = against
    said = Words(" ".join(document.text[slice(*title.span)].split()))
    facts: dict[str, Any] = {"said": said, "key": job.key("dp_shard")}
    facts |= {"value": size, "working": Words(working)}
    yield Fault(TITLED, (), facts, title.span)


def _against(
    gpus: int, job: Job, directive: Directive, target: Target
) -> tuple[int, str] | None:
    """Return another number of GPUs that the file has, and what says so."""
    size = directive.world_size
    if size:
        line = directive.world_size_line
        said = f"the file says `world-size={size}` on line {line}"
        return None if gpus == size else (size, said)
    degrees = {name: job[name] for name in _DEGREES}
    if any(type(degree) is not int for degree in degrees.values()):
        return None  # a list times a number is a longer list
    product, end = math.prod(degrees.values()), ", which does not divide it"
    fits = not gpus % product
    try:
        degrees = {"dp_shard": job["dp_shard"], **degrees}
    except Unknown:
        size = target.world_size
        if fits and target.world_size_origin == PROJECT and gpus != size:
            return size, f"{PROJECT} says `world-size = {size}`"
    else:
        product, end = math.prod(degrees.values()), ""
        fits = gpus == product
    words = " x ".join(f"{n} {v}" for n, v in degrees.items() if v != 1) or "1"
    said = f"the file says {words} = {product} GPUs{end}"
    return None if fits else (product, said)
