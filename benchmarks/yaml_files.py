"""Is a YAML file what its trainer's loader reads, are spans exact, and how fast is it?

Reads every YAML file below some folders and compares values with ``yaml.safe_load``,
and the text of each span with the value at its path. Then generated scalars, with
PyYAML and with OmegaConf (which must be installed). The unit of time is PyYAML's own C
parser on the same files, in turns.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from benchmarks import machine
from benchmarks.paths import RESULTS
from fp8tune.formats import parse
from fp8tune.formats.document import ConfigDocument, InvalidText, Unreadable
from fp8tune.formats.values import same

ROUNDS = 7
SCALARS = 30_000
NUMBERS = ("5e-5", "1.0e-5", "0x1f", "12:30:45", "true", "1_000.5", "-.inf", "017")
SIGNS = "0123456789+-._eE:xobnyNtTfrualse~="
REFUSED = object()


def main(arguments: list[str] | None = None) -> int:
    """Compare, time, print; record with --record."""
    parser = argparse.ArgumentParser(prog="yaml_files", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="of YAML files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(arguments)
    files = [
        path.read_bytes()
        for folder in options.folders
        for path in sorted(folder.rglob("*.y*ml"))
        if path.is_file()
    ]
    rows = [*real_files(files), *scalars(options.seed)]
    wrong = sum(count for what, count in rows if what.startswith("differ"))
    report = "\n".join(
        [
            "# YAML as its trainer reads it\n",
            f"YAML files of {', '.join(path.name for path in options.folders)}.\n",
            machine.table([(w, f"{c:,}") for w, c in rows], ("what", "number")),
            "",
            *(f"- {line}" for line in times(files)),
            "",
            "; ".join(f"{k} {v}" for k, v in machine.describe(*PACKAGES).items()),
        ]
    )
    print(report)
    if options.record:
        (RESULTS / "yaml_files.md").write_text(f"{report}\n", encoding="utf-8")
    return int(wrong > 0)


PACKAGES = ("PyYAML", "omegaconf")


def real_files(files: Iterable[bytes]) -> Iterator[tuple[str, int]]:
    """Yield how many files, values and spans there are, and how many differ."""
    found: Counter[str] = Counter()
    for data in files:
        found["files"] += 1
        expected = _loaded(data.decode(), yaml.SafeLoader)
        document = _parsed(data)
        if expected is REFUSED or document is None:
            agree = expected is REFUSED or not isinstance(expected, dict)
            found["refused by both, or no mapping"] += agree and document is None
            found["differ: verdict"] += not (agree and document is None)
            continue
        if not _has_names(expected):
            found["with keys such as on: and 1:"] += 1
            expected, values = _items(expected), _items(document.values)
            found["differ: values"] += not same(values, expected)
        else:
            found["differ: values"] += not same(document.values, expected or {})
        found.update(_spans(document))
    yield from sorted(found.items(), key=lambda item: item[0].startswith("differ"))


def _spans(document: ConfigDocument) -> Iterator[str]:
    """Yield each span, and those whose text is not the value or key of their path."""
    for path, (start, end) in document.spans.values.items():
        value: Any = document.values
        for part in path:
            value = value[part]
        yield "spans"
        column = document.lines.position(start).column - 1
        text = document.text[start:end]
        lines = text if "\n" not in text else f"{' ' * column}{text}"
        if not same(_stripped(_loaded(lines, yaml.SafeLoader)), _stripped(value)):
            yield "differ: spans"
    for path, (start, end) in document.spans.keys.items():
        yield "spans"
        if _loaded(document.text[start:end], yaml.BaseLoader) != path[-1]:
            yield "differ: spans"


def _stripped(value: Any) -> Any:
    """Return a value without the last blanks of block texts, as spans end there."""
    if isinstance(value, dict):
        return {str(key): _stripped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [*map(_stripped, value)]
    return value.rstrip() if isinstance(value, str) else value


def _has_names(value: Any) -> bool:
    """Return whether every key is a string; fp8tune names others as written."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and _has_names(v) for k, v in value.items())
    return not isinstance(value, list) or all(map(_has_names, value))


def _items(value: Any) -> Any:
    """Return a value with lists in place of mappings."""
    if isinstance(value, dict):
        return [*map(_items, value.values())]
    return [*map(_items, value)] if isinstance(value, list) else value


def _loaded(text: str, loader: Any) -> Any:
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506 - a safe one
    except (yaml.YAMLError, ValueError, LookupError, AttributeError):
        return REFUSED


def _parsed(data: bytes) -> ConfigDocument | None:
    try:
        return parse(data, "a.yaml")
    except (InvalidText, Unreadable):
        return None


def scalars(seed: int) -> Iterator[tuple[str, int]]:
    """Yield how many generated scalars two loaders read otherwise than fp8tune."""
    rng = random.Random(seed)  # noqa: S311
    texts = [f"k: {_scalar(rng)}\n" for _ in range(SCALARS)]
    loaders = (("pyyaml", yaml.SafeLoader), ("omegaconf", _omegaconf_loader()))
    for name, loader in loaders:
        yield f"generated scalars, {name}", len(texts)
        yield f"differ: {name}", sum(_differs(text, name, loader) for text in texts)


def _scalar(rng: random.Random) -> str:
    text = [*rng.choice(NUMBERS)]
    for _ in range(rng.randint(0, 4)):
        place = rng.randrange(len(text) + 1)
        if rng.random() < 0.7 or not text:
            text.insert(place, rng.choice(SIGNS))
        else:
            text.pop(place - 1)
    return "".join(text)


def _differs(text: str, name: str, loader: Any) -> bool:
    document, expected = _parsed(text.encode()), _loaded(text, loader)
    if document is None:
        return expected is not REFUSED and isinstance(expected, dict)
    document.read_as(name)
    return expected is REFUSED or not same(document.values, expected)


def _omegaconf_loader() -> Any:
    old = version("omegaconf") < "2.4"
    module = import_module("omegaconf._utils" if old else "omegaconf._yaml")
    return module.get_yaml_loader()


def times(files: list[bytes]) -> Iterator[str]:
    """Yield the time per file of three ways, the best of some rounds, in turns."""
    ways: dict[str, Callable[[bytes], Any]] = {
        "PyYAML's C parser alone": _composed,
        "values": _parsed,
        "values and spans": lambda data: (d := _parsed(data)) and d.spans,
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.perf_counter()
            for data in files:
                way(data)
            best[name] = min(best[name], time.perf_counter() - start)
    unit, *_ = best.values()
    size = sum(map(len, files)) / len(files)
    for name, seconds in best.items():
        each = f"{1000 * seconds / len(files):.2f} ms a file of {size:,.0f} bytes"
        yield f"{name}: {each}, {seconds / unit:.2f} x"


def _composed(data: bytes) -> Any:
    try:
        return yaml.compose(data.decode(), Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return None


if __name__ == "__main__":
    sys.exit(main())
