"""Whether and how losses can be compared: of real trials, and of recorded ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fp8tune.job import Unknown
from fp8tune.search.plan import TrainConfig, warmup_names
from fp8tune.search.stability.plan import Conditions
from fp8tune.trials.loss_run import LossRun
from fp8tune.trials.record import Record


def for_trials(config: TrainConfig, allow: Sequence[str], ranks: int) -> Conditions:
    """Those of a search by real trials, each of which stands for so many ranks."""
    refusal = ""
    if ranks > 1:
        refusal = (
            f"a trial is one of {ranks} ranks, whose losses are not the run's; compare "
            "it with its bf16 twin on the GPUs of the run"
        )
    try:
        steps: int = config.job["warmup_steps"]
        if config.job["schedule"] == "none":
            return Conditions(0, refusal=refusal, scheduled=False)
    except Unknown as missing:
        return Conditions(0, refusal=refusal or f"{missing} is not known")
    return Conditions(steps, _is_free(config, allow), refusal)


def for_records(
    config: TrainConfig,
    learned: Sequence[Record],
    allow: Sequence[str],
    offers: Callable[[dict[str, Any], LossRun], bool],
) -> Conditions | None:
    """Those of a replay; ``None`` where the records hold no run for its losses."""
    told = [how for record in learned if (how := record.loss_run)]
    if not told:
        return None
    known = for_trials(config, allow, 1)
    return known._replace(steps=told[0].steps, offered=offers)


def _is_free(config: TrainConfig, allow: Sequence[str]) -> bool:
    return not set(warmup_names(config.trainer)).isdisjoint(allow)
