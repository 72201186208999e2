"""The command line ``accelerate launch --config_file CONFIG train.py --bf16 true``.

Options of the launcher go before the values of the file. Those that only say how many
processes run where, in which precision, and what FP8 is, are followed. Arguments of the
script are training arguments, if two of them have such names or there is a file of
those: they go before the values of that file. Those of LLaMA-Factory are ``key=value``.

Source: accelerate 1.15.0, commands/launch.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune.formats.document import HOLE, Unreadable, Unresolved
from fp8tune.trainers.about import trainers
from fp8tune.trainers.accelerate.arguments import reader
from fp8tune.trainers.accelerate.launch import WORDS_OF_TRUTH
from fp8tune.trainers.accelerate.launch import arguments as arguments_of
from fp8tune.trainers.accelerate.llamafactory import is_llamafactory
from fp8tune.trainers.accelerate.loader import SWITCHES, Loader
from fp8tune.trainers.call import options
from fp8tune.trainers.faults import Argument, Fault, Loaded
from fp8tune.trainers.llamafactory.command_line import override

if TYPE_CHECKING:
    from fp8tune.formats.document import HOLE, Path

NAME, PART = "accelerate", "training"

TRUE_WORDS = ("yes", "true", "t", "y", "1")
FALSE_WORDS = ("no", "false", "f", "n", "0")
"""What ``HfArgumentParser`` reads as a switch."""

OPTION = re.compile("--?[A-Za-z]")
"""How an option of a script begins."""

NUMBERS = ("num_processes", "num_machines", "machine_rank", "main_process_port")
ADDRESS = "main_process_ip"
FOLLOWED = (*NUMBERS, ADDRESS, "mixed_precision")
"""Options whose value replaces that of the file; only that one is there counts for the
address, so it need not be known."""

OF_ONE_MACHINE = {"machine_rank": 0, "main_process_port": 29500}
"""Numbers that a job has only when it runs, and those that stand for them."""

NOT_KNOWN = math.nan
"""A number that only a run knows: each comparison with it is false."""

NO_MATTER = {"quiet", "q", "debug", "module", "m", "no_python", "same_network"}
NO_MATTER |= {"role", "tee", "log_dir", "max_restarts", "monitor_interval"}
NO_MATTER |= {"rdzv_backend", "rdzv_conf", "enable_cpu_affinity"}
"""Options that change nothing of what the file says."""

WHOLE = ("margin", "interval", "amax_history_len")
CHOICES = {
    "backend": ("ao", "te", "msamp"),
    "format": ("HYBRID", "E4M3", "E5M2"),
    "amax_compute_algo": ("max", "most_recent"),
    "opt_level": ("O1", "O2"),
}
TRUTHS = ("enable_fsdp_float8_all_gather", "pad_inner_dim")
"""Options of FP8 behind ``--fp8_``, by the values that they take."""


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Load a file with the launcher's options; raises ``Unreadable`` for others."""
    command: dict[str, Any] = {}
    arguments: dict[Path, Argument] = {}
    words = list(words)
    about = trainers()[NAME]
    keys = arguments_of(loader.schema)
    script = 0
    for name, start, script, prefix in options(about.calls[0], words, 0):
        value = words[script - 1][prefix:] if script - start > 1 or prefix else ""
        text = " ".join(words[start:script])
        if HOLE in value and name not in (*NUMBERS, ADDRESS, *NO_MATTER):
            raise Unreadable(f"the value of `--{name}` is not known before the run")
        if name in FOLLOWED:
            command[name] = _number(name, value) if name in NUMBERS else value
            arguments[name,] = _argument(text, value)
        elif name in keys and name.startswith("fp8_"):
            command[name] = _fp8(name, value)
            key = keys[name][0]
            arguments[tuple(key.split("."))] = _argument(text, value)
        elif name not in NO_MATTER:
            reason = f"fp8tune does not follow `--{name}` of accelerate launch"
            raise Unreadable(f"{reason}: leave it out, or write it in the file")
    read = _of_llamafactory if is_llamafactory(raw.get(PART, {})) else _of_script
    ours = read is _of_script  # whose options argparse reads
    names = reader("".join(words[script : script + 1])).names if ours else ()
    given = {whole_name(one.name, names): one for one in read(words[script + 1 :])}
    if PART in raw or len(given.keys() & loader.schema.classes["Training"]) > 1:
        values = {name: one.value for name, one in given.items()}
        raw = {**raw, PART: {**raw.get(PART, {}), **values}}
        arguments |= {(PART, name): one.argument for name, one in given.items()}
    loaded = loader.load(raw, command, "".join(words[script : script + 1]))
    for name in [name for name, value in command.items() if value is NOT_KNOWN]:
        loaded.values.pop(name, None)
    for name, one in given.items():
        if not one.known:
            loaded.values.pop(f"{PART}.{name}", None)
    faults = [_typed(fault, arguments.get(fault.path)) for fault in loaded.faults]
    return loaded._replace(faults=faults, arguments=arguments)


def whole_name(name: str, names: Collection[str]) -> str:
    """Return the name that argparse takes an option for: one may be cut short."""
    longer = [] if name in names else [n for n in names if n.startswith(name)]
    return longer[0] if len(longer) == 1 else name


def is_known_script(word: str) -> bool:
    """Whether it is known which arguments a script, or a command of ``trl``, has."""
    return bool(reader(word).command)


def _typed(fault: Fault, argument: Argument | None) -> Fault:
    """Return a fault with the argument that it is about: every parser refuses those."""
    if not argument:
        return fault
    kind = "unknown-key" if fault.kind == "ignored-key" else fault.kind
    return fault._replace(kind=kind, argument=argument)


def _argument(text: str, value: str) -> Argument:
    edge = len(text) - len(value)
    return Argument(text, (0, max(edge - 1, 0)), (edge if value else 0, len(text)))


class _Given(NamedTuple):
    """An argument of the script; ``known`` says if the value is, before the run."""

    name: str
    value: Any
    known: bool
    argument: Argument


def _of_llamafactory(words: list[str]) -> Iterator[_Given]:
    """Yield what the arguments of LLaMA-Factory set."""
    for one in map(override, words):
        known = not isinstance(one.value, Unresolved)
        yield _Given(str(one.path[0]), one.value, known, one.argument)


def _of_script(words: list[str]) -> Iterator[_Given]:
    """Yield what the options of the script set."""
    starts = [n for n, word in enumerate(words) if OPTION.match(word)]
    for start, end in pairwise([*starts, len(words)]):
        name, equals, value = words[start].partition("=")
        texts = [value] * bool(equals) + words[start + 1 : end]
        whole = _argument(" ".join(words[start:end]), " ".join(texts))
        key, known = name.lstrip("-").replace("-", "_"), HOLE not in "".join(texts)
        yield _Given(key, _value(key, texts), known, whole)


def _value(name: str, texts: list[str]) -> Any:
    """The value of a training argument, as ``HfArgumentParser`` converts most."""
    values = [_converted(name, text) for text in texts]
    return True if not values else values[0] if len(values) == 1 else values


def _converted(name: str, text: str) -> Any:
    word = text.lower()
    if word in (TRUE_WORDS if name in SWITCHES else ("true",)):
        return True
    if word in (FALSE_WORDS if name in SWITCHES else ("false",)):
        return False
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _number(name: str, value: str) -> float:
    if HOLE in value and name in NUMBERS:
        return OF_ONE_MACHINE.get(name, NOT_KNOWN)
    if value.isascii() and value.isdigit() and len(value) < 9:
        return int(value)
    raise Unreadable(f"`--{name} {value}` is not a number that is known before the run")


def _fp8(name: str, value: str) -> Any:
    """Return the value of an option of FP8, as the launcher's parser reads it."""
    own = name.removeprefix("fp8_")
    words = value.lower().split(",")
    if own == "use_autocast_during_eval":
        return True
    if own in WHOLE:
        return _number(name, value)
    if own in TRUTHS and value.lower() in WORDS_OF_TRUTH:
        return value
    if own == "override_linear_precision" and {*words} <= {*WORDS_OF_TRUTH}:
        return [word in WORDS_OF_TRUTH[:6] for word in words]
    if value not in CHOICES.get(own, ()):
        raise Unreadable(f"`accelerate launch` does not take `--{name} {value}`")
    return value
