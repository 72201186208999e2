"""The command line ``accelerate launch --config_file CONFIG train.py``.

Options of the launcher go before the values of the file. Those that only say how many
processes run where, in which precision, and what FP8 is, are followed.

Source: accelerate 1.15.0, commands/launch.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fp8tune.formats.document import Unreadable
from fp8tune.trainers.accelerate.launch import WORDS_OF_TRUTH
from fp8tune.trainers.accelerate.launch import arguments as arguments_of
from fp8tune.trainers.accelerate.loader import Loader
from fp8tune.trainers.call import Call
from fp8tune.trainers.described.command_line import CHECKED_FIRST
from fp8tune.trainers.faults import Argument, Loaded
from fp8tune.trainers.schema import Schema

if TYPE_CHECKING:
    from fp8tune.formats.document import Path

__all__ = ["CHECKED_FIRST", "find_call", "is_free_text", "load"]

STARTS = ("accelerate", "launch")
CONFIG = ("--config_file", "--config-file")

NUMBERS = ("num_processes", "num_machines", "machine_rank", "main_process_port")
FOLLOWED = (*NUMBERS, "main_process_ip", "mixed_precision")
"""Options whose value replaces that of the file."""

NO_MATTER = {"quiet", "q", "debug", "module", "m", "no_python", "same_network"}
NO_MATTER |= {"role", "tee", "log_dir", "max_restarts", "monitor_interval"}
NO_MATTER |= {"rdzv_backend", "rdzv_conf", "enable_cpu_affinity"}
"""Options that change nothing of what the file says."""

SWITCHES = {
    "cpu",
    "multi_gpu",
    "tpu",
    "use_deepspeed",
    "use_fsdp",
    "use_megatron_lm",
    "use_parallelism_config",
    "debug",
    "module",
    "no_python",
    "quiet",
    "enable_cpu_affinity",
    "same_network",
    "downcast_bf16",
    "dynamo_use_fullgraph",
    "dynamo_use_dynamic",
    "dynamo_use_regional_compilation",
    "fp8_use_autocast_during_eval",
    "tpu_cluster",
    "no_tpu_cluster",
    "tpu_use_sudo",
    "m",
    "q",
}
"""Options without a value."""

WHOLE = ("margin", "interval", "amax_history_len")
CHOICES = {
    "backend": ("ao", "te", "msamp"),
    "format": ("HYBRID", "E4M3", "E5M2"),
    "amax_compute_algo": ("max", "most_recent"),
    "opt_level": ("O1", "O2"),
}
TRUTHS = ("enable_fsdp_float8_all_gather", "pad_inner_dim")
"""Options of FP8 behind ``--fp8_``, by the values that they take."""

MISSING = -1
"""Stands for a config that no word names."""


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Load a file with the launcher's options; raises ``Unreadable`` for others."""
    command: dict[str, Any] = {}
    arguments: dict[Path, Argument] = {}
    words = list(words)
    for name, start, end, value in _options(words):
        option = name in arguments_of(loader.schema) and name.startswith("fp8_")
        if name in FOLLOWED or option:
            if option:
                command[name] = _fp8(name, value)
            else:
                command[name] = _number(name, value) if name in NUMBERS else value
            text = " ".join(words[start:end])
            edge = len(text) - len(value)
            key = arguments_of(loader.schema)[name][0] if option else name
            mark = Argument(text, (0, max(edge - 1, 0)), (edge, len(text)))
            arguments[tuple(key.split("."))] = mark
        elif name not in NO_MATTER:
            reason = f"fp8tune does not follow `--{name}` of accelerate launch"
            raise Unreadable(f"{reason}: leave it out, or write it in the file")
    return loader.load(raw, command)._replace(arguments=arguments)


def _number(name: str, value: str) -> int:
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


def is_free_text(schema: Schema, word: str) -> bool:  # noqa: ARG001
    """Return whether an option may hold anything: ``load`` refuses what it may not."""
    return True


def find_call(words: Sequence[str]) -> Call | None:
    """Where a command that starts the launcher has its config and other options."""
    names = [os.path.basename(word) for word in words]
    pairs = enumerate(pairwise(names))
    first = next((n for n, pair in pairs if pair == STARTS), None)
    if first is None:
        return None
    config, prefix, overrides = MISSING, 0, list[int]()
    for _, start, end, _ in _options(words, first + 2):
        name, equals, _ = words[start].partition("=")
        if name in CONFIG:
            config, prefix = end - 1, len(name) + 1 if equals else 0
        else:
            overrides += range(start, end)
    return Call(first, config, tuple(overrides), prefix)


def _options(
    words: Sequence[str], place: int = 0
) -> Iterator[tuple[str, int, int, str]]:
    """Yield the launcher's options from a word on: name, first word, end, and value.

    They end at the script.
    """
    while place < len(words) and words[place].startswith("-"):
        name, equals, value = words[place].partition("=")
        name = name.lstrip("-").replace("-", "_")
        end = min(place + (1 if equals or name in SWITCHES else 2), len(words))
        yield name, place, end, value if equals or end == place + 1 else words[end - 1]
        place = end
