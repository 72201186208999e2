"""Whether fp8tune reads Hjson as the package ``hjson`` does, on generated texts.

``python -m tools.deepspeed.hjson_texts --count 20000 --seed 1`` needs a Python
with ``hjson`` (DeepSpeed brings it). Texts use every liberty of the format, and half
are then damaged. Values, types, refusals and repeated keys must agree (the package
stops at a repeated key, before what it would refuse below). For texts that ``json``
accepts, so must the values of ``json``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from importlib import import_module
from typing import Any

from fp8tune.formats.document import InvalidText, Unreadable
from fp8tune.formats.json.document import Document, parse

KEYS = ("stage", "bf16", "a b", "x", "enabled", "lr", "é", "a#b", "", "y", "z")
SCALARS = (
    *("1", "-0", "1.0", "1e3", "5e-5", "1e10", "12345678901234", "0.5", "01", "1e999"),
    *(
        "true",
        "false",
        "null",
        "NaN",
        '"auto"',
        "'auto'",
        '"a\\u00e9\\n"',
        '"\\ud83d\\ude00"',
    ),
    *(
        "auto",
        "a, b",
        "hello world",
        "truely",
        "/data/x",
        "x}",
        '"it\'s"',
        "-",
        "1 2",
        "3 // x",
    ),
    *("None",),
)
BLANKS = (" ", " ", "\n", "\n  ", "\t", " # c\n", " // c\n", "/* c */", "\r\n", "", "")
DAMAGE = "{}[],:\"'\n #/*\\01ae.-\t\r"


def main() -> int:
    """Compare, and return 1 if a text is read differently."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)  # noqa: S311
    accepted = wrong = plain = 0
    for _ in range(options.count):
        text = _text(draw)
        theirs, ours = package(text), own(text)
        if ours[0] == "unread":
            continue
        accepted += theirs[0] != "refused"
        if theirs != ours and not (theirs[0] == "twice" and ours[0] == "refused"):
            wrong += 1
            print(f"{text!r}\n  hjson   {theirs}\n  fp8tune {ours}")
        standard = _json(text)
        if standard is not None:
            plain += 1
            strict = own(text, "json")
            if strict not in (("values", standard), ("refused", "")):
                wrong += 1
                print(f"{text!r}\n  json    {standard}\n  fp8tune {strict}")
    print(f"{options.count} texts, {accepted} accepted, {plain} JSON: {wrong} differ")
    return int(bool(wrong))


def package(text: str) -> tuple[str, str]:
    """Return what the package makes of a text, with DeepSpeed's hook."""
    hjson: Any = import_module("hjson")
    try:
        values = hjson.loads(text, object_pairs_hook=_pairs)
    except KeyError:
        return "twice", ""
    except Exception:  # it lets errors of its own code through
        return "refused", ""
    return ("values", _told(values)) if isinstance(values, dict) else ("refused", "")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise KeyError
    return dict(pairs)


def own(text: str, loader: str = "hjson") -> tuple[str, str]:
    """Return what fp8tune makes of a text."""
    try:
        document = parse(text.encode(errors="surrogatepass"))
        document.read_as(loader)
        document = Document(document.text, bom=document.bom, loader=loader)
    except Unreadable:
        return "unread", ""
    except InvalidText:
        return "refused", ""
    if document.repeated and loader == "hjson":
        return "twice", ""
    _check_spans(document)
    return "values", _told(document.values)


def _check_spans(document: Document) -> None:
    """Every value has a place, whose text is not empty."""
    for path, (start, end) in document.spans.values.items():
        value: Any = document.values
        for part in path:
            value = value[part]
        assert start < end
        text = document.text[start:end]
        assert not isinstance(value, bool) or text == str(value).lower()
        assert not isinstance(value, dict) or text[0] + text[-1] == "{}"


def _json(text: str) -> str | None:
    try:
        values = json.loads(text)
    except ValueError:
        return None
    return _told(values) if isinstance(values, dict) else None


def _told(values: Any) -> str:
    """Return a text that is equal for equal values of equal types."""
    return json.dumps(values, sort_keys=True)


def _text(draw: random.Random) -> str:
    text = _table(draw, 0, draw.random() < 0.1)
    text = draw.choice(BLANKS) + text + draw.choice(BLANKS)
    for _ in range(draw.choice((0, 0, 1, 2))):
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(DAMAGE) + text[at + draw.choice((0, 1)) :]
    return text


def _table(draw: random.Random, depth: int, bare: bool = False) -> str:
    parts = []
    for _ in range(draw.randrange(4)):
        key = draw.choice(KEYS)
        mark = draw.choice(('"', '"', "'", ""))
        blank = [draw.choice(BLANKS) for _ in range(4)]
        comma = draw.choice((",", ",", ",\n", "\n", ",\n  ", ""))
        value = _value(draw, depth + 1)
        parts.append(f"{blank[0]}{mark}{key}{mark}{blank[1]}:{blank[2]}{value}{comma}")
    inside = "".join(parts)
    if draw.random() < 0.5:
        inside = inside.rstrip(", \n") + draw.choice(("", "\n"))
    return inside if bare else f"{{{inside}}}"


def _value(draw: random.Random, depth: int) -> str:
    kind = draw.random()
    if depth < 3 and kind < 0.2:
        return _table(draw, depth)
    if depth < 3 and kind < 0.35:
        items = [_value(draw, depth + 1) for _ in range(draw.randrange(3))]
        return f"[{draw.choice((', ', ',', chr(10))).join(items)}]"
    return draw.choice(SCALARS)


if __name__ == "__main__":
    sys.exit(main())
