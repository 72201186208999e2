"""How the time of lint grows with the length of a config, by format and construct.

Each construct that can be long is doubled until it takes ``LONG_S`` or fills the
largest file that lint reads. The exponent is the slope of log time over log size of the
last doublings, without the time that a short file takes: 1 is linear. Findings are
shown as JSON. Exit code 1 if an exponent is above ``MAX_EXPONENT``.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.paths import RESULTS
from fp8tune.cli import run

FIRST = 256
"""Parts of the shortest file."""
LONG_S = 0.4
SHORT_S = 0.02
"""Seconds beyond a short file's from which a time counts."""
POINTS = 4
"""Doublings over which the slope is taken, the longest ones."""
RUNS = 2
MAX_EXPONENT = 1.3

TOML = "[model]\ndim = 4096\nn_layers = 32\n[train]\nmixed_precision = 'fp8'\n"
TITAN = "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nsteps = 10\n"
AXOLOTL = "base_model: meta-llama/Llama-3.1-8B\nmicro_batch_size: 1\nfp8: true\n"
ZERO = '"train_batch_size": 8, "zero_optimization": {"stage": 2}'
RUN = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 \\\n"
)
MEGATRON = RUN + "  --num-attention-heads 16 --seq-length 1024 --bf16 "
FLAGS = "--micro-batch-size 1"


def lines(form: str, count: int) -> str:
    """Return a line for each number below ``count``."""
    return "\n".join(form.replace("#N", str(n)) for n in range(count)) + "\n"


def words(form: str, count: int, between: str = ", ") -> str:
    """Return words for each number below ``count`` in one line."""
    return between.join(form.replace("#N", str(n)) for n in range(count))


def quoted(word: str) -> str:
    """Return a word between double quotes."""
    return f'"{word}"'


END, COMMA = "\n", ",\n"
PAIR, MISSPELT = '"k#N": 1', '"train_batch_siz#N": 1'
Construct = Callable[[int], str]

TOML_FILES: dict[str, Construct] = {
    "unknown keys": lambda n: TOML + lines("k#N = 1", n),
    "unknown keys, torchtitan": lambda n: TITAN + lines("step#N = 1", n),
    "unknown tables": lambda n: TOML + lines("[t#N]", n),
    "misspelt keys": lambda n: TOML + lines("batch_siz#N = 1", n),
    "list": lambda n: f"{TOML}x = [{words('#N', n)}]\n",
    "list over lines": lambda n: f"{TOML}x = [\n{lines('  #N,', n)}]\n",
    "list of a known key": lambda n: (
        f"[model]\nconverters = [{words(quoted('a#N'), n)}]\n"
        + TITAN.removeprefix("[model]\n")
    ),
    "array of tables": lambda n: TOML + lines("[[data.datasets]]\nname = '#N'", n),
    "inline table": lambda n: f"{TOML}x = {{{words('a#N = 1', n)}}}\n",
    "nested lists": lambda n: TOML + lines(f"x#N = {'[' * 40}{']' * 40}", n),
    "dotted keys": lambda n: lines("a#N.b.c.d.e = 1", n) + TOML,
    "dotted keys of one table": lambda n: lines("a.b#N.c = 1", n) + TOML,
    "string": lambda n: f"{TOML}x = '{'a b ' * n}'\n",
    "multi-line string": lambda n: f"{TOML}x = '''\n{lines('a #N', n)}'''\n",
    "comments": lambda n: lines("# a comment #N", n) + TOML,
    "comments below": lambda n: TOML + lines("# a comment #N", n),
    "comments that name fp8tune": lambda n: lines("# fp8tune is #N", n) + TOML,
    "ignore comments": lambda n: (
        TOML + lines("k#N = 1  # fp8tune: ignore[unknown-key]", n)
    ),
    "ignore comments above": lambda n: (
        TOML + lines("# fp8tune: ignore[unknown-key]\nk#N = 1", n)
    ),
    "ignore comments in a row": lambda n: (
        TOML + lines("# fp8tune: ignore[unknown-key]", n)
    ),
    "codes of one ignore comment": lambda n: (
        f"{TOML}# fp8tune: ignore[{words('FP8#N', n)}]\nk = 1\n"
    ),
    "names of one ignore comment": lambda n: (
        f"{TOML}# fp8tune: ignore[{words('unknown-ke-#N', n)}]\nk = 1\n"
    ),
    "spaces in an ignore comment": lambda n: (
        f"{TOML}# fp8tune: ignore[{' ' * n}a] until={' ' * n}\nk = 1\n"
    ),
    "header directives": lambda n: lines("# fp8tune: gpu=h100", n) + TOML,
    "wrong header directives": lambda n: lines("# fp8tune: gpu=h#N", n) + TOML,
    "words of one header directive": lambda n: (
        f"# fp8tune: {words('gpu=h100', n, ' ')}\n{TOML}"
    ),
    "empty lines": lambda n: TOML + "\n" * n,
    "spaces": lambda n: f"{TOML}x = {' ' * n}1\n",
    "an error at the end": lambda n: f"{TOML}{lines('k#N = 1', n)}= 1\n",
    "an open string": lambda n: f"{TOML}x = '''{lines('k#N = 1', n)}",
    "an open list": lambda n: f"{TOML}x = {'[' * n}",
    "duplicate keys": lambda n: TOML + lines("k = #N", n),
    "known keys in comments": lambda n: TOML + lines("# batch_size = #N", n),
}
YAML_FILES: dict[str, Construct] = {
    "unknown keys": lambda n: AXOLOTL + lines("k#N: 1", n),
    "misspelt keys": lambda n: AXOLOTL + lines("micro_batch_siz#N: 1", n),
    "list": lambda n: f"{AXOLOTL}datasets:\n{lines('  - path: a#N', n)}",
    "flow list": lambda n: f"{AXOLOTL}tags: [{words('a#N', n)}]\n",
    "flow map": lambda n: f"{AXOLOTL}tags: {{{words('a#N: 1', n)}}}\n",
    "nested maps": lambda n: (
        AXOLOTL + lines("k#N:\n" + lines("", 0).strip() + "  a:\n    b:\n      c: 1", n)
    ),
    "string": lambda n: f"{AXOLOTL}tag: '{'a b ' * n}'\n",
    "plain string": lambda n: f"{AXOLOTL}tag: {'a b ' * n}\n",
    "folded string": lambda n: f"{AXOLOTL}tag: >\n{lines('  a #N', n)}",
    "comments": lambda n: lines("# a comment #N", n) + AXOLOTL,
    "comments that name fp8tune": lambda n: lines("# fp8tune is #N", n) + AXOLOTL,
    "ignore comments": lambda n: (
        AXOLOTL + lines("k#N: 1  # fp8tune: ignore[unknown-key-ignored]", n)
    ),
    "codes of one ignore comment": lambda n: (
        f"{AXOLOTL}# fp8tune: ignore[{words('FP8#N', n)}]\nk: 1\n"
    ),
    "header directives": lambda n: lines("# fp8tune: gpu=h100", n) + AXOLOTL,
    "anchors and aliases": lambda n: AXOLOTL + lines("k#N: &a#N [1]\nl#N: *a#N", n),
    "merges": lambda n: f"{AXOLOTL}base: &b {{a: 1}}\n" + lines("k#N: {<<: *b}", n),
    "duplicate keys": lambda n: AXOLOTL + lines("k: #N", n),
    "an error at the end": lambda n: f"{AXOLOTL}{lines('k#N: 1', n)}]: [\n",
    "documents": lambda n: lines(f"---\n{AXOLOTL}", n),
    "empty lines": lambda n: AXOLOTL + "\n" * n,
    "brackets": lambda n: f"{AXOLOTL}k: {'[' * n}\n",
    "interpolations": lambda n: AXOLOTL + lines("k#N: ${k0}", n),
}
JSON_FILES: dict[str, Construct] = {
    "unknown keys": lambda n: f"{{{ZERO}, {words(PAIR, n)}}}\n",
    "unknown keys over lines": lambda n: f"{{{ZERO},\n{words(PAIR, n, COMMA)}}}\n",
    "misspelt keys": lambda n: f"{{{ZERO}, {words(MISSPELT, n)}}}\n",
    "list": lambda n: f'{{{ZERO}, "k": [{words("#N", n)}]}}\n',
    "list of maps": lambda n: f'{{{ZERO}, "k": [{words(f"{{{PAIR}}}", n)}]}}\n',
    "string": lambda n: f'{{{ZERO}, "k": "{"a b " * n}"}}\n',
    "escapes": lambda n: f'{{{ZERO}, "k": "{chr(92) * 2 * n}"}}\n',
    "comments": lambda n: f"{{{ZERO},\n{lines('// a #N', n)}}}\n",
    "ignore comments": lambda n: (
        f"{{{ZERO},\n{words(f'// fp8tune: ignore[unknown-key]{END}{PAIR}', n, COMMA)}}}"
    ),
    "codes of one ignore comment": lambda n: (
        f'{{{ZERO},\n// fp8tune: ignore[{words("FP8#N", n)}]\n"k": 1}}\n'
    ),
    "header directives": lambda n: f"{lines('// fp8tune: gpu=h100', n)}{{{ZERO}}}\n",
    "duplicate keys": lambda n: f"{{{ZERO}, {words(quoted('k') + ': 1', n)}}}\n",
    "an error at the end": lambda n: f"{{{ZERO}, {words(PAIR, n)} 1}}\n",
    "brackets": lambda n: f'{{{ZERO}, "k": {"[" * n}\n',
    "empty lines": lambda n: f"{{{ZERO}{END * n}}}\n",
}
BASH_FILES: dict[str, Construct] = {
    "assignments": lambda n: lines("A#N=#N", n) + MEGATRON + FLAGS,
    "assignments that read each other": lambda n: (
        "A=1\n" + lines("B#N=$A", n) + MEGATRON + FLAGS
    ),
    "a text that grows": lambda n: "A=\n" + lines('A="$A -x"', n) + f"{MEGATRON} $A",
    "flags": lambda n: MEGATRON + words("--save-interval #N", n, " "),
    "unknown flags": lambda n: MEGATRON + words("--mup-#N", n, " "),
    "flags over lines": lambda n: MEGATRON + words("--seed #N", n, " \\\n  "),
    "array": lambda n: f"A=({words('--seed #N', n, ' ')})\n{MEGATRON} ${{A[@]}}",
    "array over lines": lambda n: (
        f"A=(\n{lines('--seed #N', n)})\n{MEGATRON} ${{A[@]}}"
    ),
    "arrays that are added": lambda n: (
        "A=()\n" + lines("A+=(-x)", n) + f"{MEGATRON} ${{A[@]}}"
    ),
    "words of a flag": lambda n: MEGATRON + "--data-path " + words("a#N", n, " "),
    "string": lambda n: f"A='{'a b ' * n}'\n{MEGATRON} $A",
    "here document": lambda n: f"cat <<EOF\n{lines('a $N', n)}EOF\n{MEGATRON}{FLAGS}",
    "comments": lambda n: lines("# a comment #N", n) + MEGATRON + FLAGS,
    "ignore comments": lambda n: (
        lines("# fp8tune: ignore[unknown-key]", n) + MEGATRON + FLAGS
    ),
    "codes of one ignore comment": lambda n: (
        f"# fp8tune: ignore[{words('FP8#N', n)}]\n{MEGATRON}{FLAGS}"
    ),
    "header directives": lambda n: lines("# fp8tune: gpu=h100", n) + MEGATRON + FLAGS,
    "sbatch lines": lambda n: (
        "#!/bin/bash\n" + lines("#SBATCH --gpus=8", n) + MEGATRON + FLAGS
    ),
    "commands": lambda n: lines("echo #N", n) + MEGATRON + FLAGS,
    "exports": lambda n: lines("export A#N=#N", n) + MEGATRON + FLAGS,
    "conditions": lambda n: (
        "A=1\n" + lines('if [ "$A" = 1 ]; then B=#N; fi', n) + MEGATRON + FLAGS
    ),
    "conditions that are open": lambda n: (
        lines('if [ "$A" = 1 ]; then B#N=#N; fi', n) + MEGATRON + FLAGS
    ),
    "flags on conditions": lambda n: (
        "A=\n" + lines('if [ "$X" = 1 ]; then A="$A -x"; fi', n) + f"{MEGATRON} $A"
    ),
    "nested conditions": lambda n: (
        "if true; then\n" * n + "fi\n" * n + MEGATRON + FLAGS
    ),
    "loops": lambda n: lines("for i in 1 2; do echo $i; done", n) + MEGATRON + FLAGS,
    "branches of a case": lambda n: (
        f"case $1 in\n{lines('  a#N) B=#N;;', n)}esac\n" + MEGATRON + FLAGS
    ),
    "functions": lambda n: lines("f#N() { echo; }", n) + MEGATRON + FLAGS,
    "calls": lambda n: "f() { A=1; }\n" + "f\n" * n + MEGATRON + FLAGS,
    "substitutions": lambda n: lines("A#N=$(date)", n) + MEGATRON + FLAGS,
    "open brackets": lambda n: f"A={'$(' * n}\n{MEGATRON}{FLAGS}",
    "arithmetic": lambda n: "A=1\n" + lines("A=$((A + 1))", n) + MEGATRON + FLAGS,
    "one arithmetic expression": lambda n: (
        f"A=$(({words('#N', n, '+')}))\n" + MEGATRON + FLAGS
    ),
    "pipes": lambda n: "echo " + "| cat " * n + "\n" + MEGATRON + FLAGS,
    "quotes": lambda n: f"A={chr(34) * 2 * n}\n{MEGATRON}{FLAGS}",
    "runs": lambda n: lines(f"{MEGATRON} {FLAGS}", n),
}
FORMATS = {
    "toml": TOML_FILES,
    "yaml": YAML_FILES,
    "json": JSON_FILES,
    "sh": BASH_FILES,
}
LARGEST = {"toml": 1 << 20, "yaml": 1 << 20, "json": 1 << 20, "sh": 1 << 16}


class Grown(NamedTuple):
    """One construct: bytes and seconds of each doubling, and the exponent.

    The exponent is 0 if no file takes longer than a short one.
    """

    format: str
    construct: str
    bytes: list[int]
    seconds: list[float]
    exponent: float


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="lint_growth", description=__doc__)
    parser.add_argument("--only", default="", help="constructs whose name has this")
    parser.add_argument("--output", type=Path, default=RESULTS / "lint_growth.json")
    options = parser.parse_args(arguments)
    grown = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for each in measure(options.only):
            print(
                f"{each.exponent:5.2f}  {each.seconds[-1]:7.3f} s"
                f"  {each.bytes[-1]:>8} B  {each.format} {each.construct}",
                flush=True,
            )
            grown.append(each)
    if not options.only:
        save(options.output, grown)
    worst = max(each.exponent for each in grown)
    print(f"largest exponent: {worst:.2f} (at most {MAX_EXPONENT})")
    return int(worst > MAX_EXPONENT)


def measure(only: str = "") -> Iterator[Grown]:
    """Yield the growth of each construct whose format and name contain ``only``."""
    for ending, constructs in FORMATS.items():
        for name, construct in constructs.items():
            if only in f"{ending} {name}":
                grown = grow(ending, name, construct)
                if grown.exponent > MAX_EXPONENT:  # the machine may have been busy
                    again = grow(ending, name, construct)
                    grown = min(grown, again, key=lambda each: each.exponent)
                yield grown


def grow(ending: str, name: str, construct: Construct) -> Grown:
    """Double a construct until it takes long, or until lint refuses the file."""
    short = timed(ending, construct(1))
    sizes: list[int] = []
    seconds: list[float] = []
    count = FIRST
    while not seconds or seconds[-1] < LONG_S:
        text = construct(count)
        if len(text) > LARGEST[ending]:
            break
        sizes.append(len(text))
        seconds.append(timed(ending, text))
        count *= 2
    points = [
        (math.log(size), math.log(took - short))
        for size, took in zip(sizes, seconds, strict=True)
        if took - short > SHORT_S
    ]
    return Grown(ending, name, sizes, seconds, slope(points[-POINTS:]))


def slope(points: list[tuple[float, float]]) -> float:
    """Return the slope of the line of least squares, 0 for fewer than two points."""
    if len(points) < 2:
        return 0.0
    xs, ys = zip(*points, strict=True)
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((each - x) ** 2 for each in xs)
    return float(sum((a - x) * (b - y) for a, b in points) / spread)


def timed(ending: str, text: str) -> float:
    """Return the shortest of some times [s] that lint takes for a text."""
    path = f"train.{ending}"
    Path(path).write_text(text, encoding="utf-8")
    best = math.inf
    gc.disable()  # as the program does for lint
    for _ in range(RUNS):
        start = time.process_time()
        with (
            contextlib.redirect_stdout(_Nowhere()),
            contextlib.redirect_stderr(_Nowhere()),
        ):
            run(["lint", path, "--output-format", "json"])
        best = min(best, time.process_time() - start)
        gc.collect()
        if best > LONG_S / 2:
            break
    os.unlink(path)
    return best


class _Nowhere(io.TextIOWrapper):
    """A stream that forgets what is written."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")


def save(path: Path, grown: list[Grown]) -> None:
    """Write all figures as JSON."""
    data: dict[str, Any] = {
        "machine": machine.describe(),
        "max_exponent": MAX_EXPONENT,
        "grown": [each._asdict() for each in grown],
    }
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
