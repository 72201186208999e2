"""The command line ``accelerate launch --config_file CONFIG train.py``.

Where the config stands is found; what the launcher's other options change is not
followed.

Source: accelerate 1.15.0, commands/launch.py.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise

from fp8tune.trainers.call import Call
from fp8tune.trainers.described.command_line import CHECKED_FIRST, is_free_text, load

__all__ = ["CHECKED_FIRST", "find_call", "is_free_text", "load"]

STARTS = ("accelerate", "launch")
CONFIG = ("--config_file", "--config-file")

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

MISSING = -1
"""Stands for a config that no word names."""


def find_call(words: Sequence[str]) -> Call | None:
    """Where a command that starts the launcher has its config and other options."""
    names = [os.path.basename(word) for word in words]
    pairs = enumerate(pairwise(names))
    first = next((n for n, pair in pairs if pair == STARTS), None)
    if first is None:
        return None
    config, prefix, overrides = MISSING, 0, list[int]()
    place = first + 2
    while place < len(words) and words[place].startswith("-"):
        name, equals, _ = words[place].partition("=")
        switch = name.lstrip("-").replace("-", "_") in SWITCHES
        end = place + (1 if equals or switch else 2)
        if name in CONFIG:
            config, prefix = end - 1, len(name) + 1 if equals else 0
        else:
            overrides += range(place, min(end, len(words)))
        place = end
    return Call(first, config, tuple(overrides), prefix)
