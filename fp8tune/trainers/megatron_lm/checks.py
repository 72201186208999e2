"""How the arguments of Megatron-LM must fit, with its own words where it has some.

Each check names the flag that it is about, what must hold, and what to do. Checks that
need the number of GPUs are rules. A check whose flags are not all known is left out.

Source: ``validate_args`` in megatron/training/arguments.py, and ``__post_init__`` in
megatron/core/transformer/transformer_config.py, at d98e8a64d.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fp8tune.job import Prose
from fp8tune.trainers.faults import Fault
from fp8tune.trainers.megatron_lm.argument_checks import ARGUMENTS
from fp8tune.trainers.megatron_lm.check import Check, Values
from fp8tune.trainers.megatron_lm.expert_checks import EXPERTS
from fp8tune.trainers.megatron_lm.fp8_checks import FP8
from fp8tune.trainers.megatron_lm.schedule_checks import SCHEDULE
from fp8tune.trainers.megatron_lm.sharding_checks import SHARDING

CHECKS = (*FP8, *ARGUMENTS, *SCHEDULE, *SHARDING, *EXPERTS)


def refusals(values: Values) -> Iterator[Fault]:
    """Yield what the arguments are refused for."""
    for check in CHECKS:
        with suppress(KeyError, TypeError):
            if _fails(check, values):
                facts = {
                    "key": check.key,
                    "reason": Prose(check.reason.format_map(values)),
                    "hint": Prose(check.hint),
                }
                yield Fault("refused-settings", (check.key,), facts)


def _fails(check: Check, values: Values) -> bool:
    """Whether a check fails: one that divides by 0 does, as Megatron-LM then does."""
    try:
        return bool(check.when(values))
    except ZeroDivisionError:
        return True
