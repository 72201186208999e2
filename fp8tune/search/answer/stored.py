"""The answer of a search as JSON, as it is printed and stored in the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fp8tune.search.answer.answer import (
    SAME_COMMAND,
    Answer,
    Ending,
    Measured,
    as_data,
    is_untied,
)
from fp8tune.search.answer.decide import answer_so_far, with_config
from fp8tune.search.answer.next_step import next_commands
from fp8tune.search.answer.wording import UNTIED, message
from fp8tune.search.losses import findings as losses
from fp8tune.search.objective import SPEED
from fp8tune.search.plan import Plan
from fp8tune.search.saved_study import SavedStudy


def stored_answer(study: SavedStudy) -> Mapping[str, Any]:
    """Return the answer of a study as its search has stored it.

    A search that has not ended has the answer that its trials so far give.
    """
    stored = study.about.get("answer")
    if isinstance(stored, dict):
        return stored
    plan, about, output = study.plan, study.about, study.about.get("output")
    output = output if isinstance(output, str) else None
    answer = answer_of(study, Ending(SAME_COMMAND) if output is None else Ending())
    commands = next_commands(plan, about, answer, output)
    data = as_json(answer, plan, study.folder, output or "", about, commands)
    return to_store(answer, plan, data)


def to_store(answer: Answer, plan: Plan, data: dict[str, Any]) -> dict[str, Any]:
    """Return what a study stores: the JSON object, and every setting tried."""
    settings = answer.settings.values()
    return {
        **data,
        "interrupted": answer.ending.next_step == SAME_COMMAND,
        "speed_changed": answer.speed_changed,
        "tried": [setting.data(plan.space) for setting in settings],
    }


def answer_of(study: SavedStudy, ending: Ending) -> Answer:
    """Return the answer that the trials of a study give."""
    plan, trials, about = study.plan, study.trials, study.about
    objective = str(about.get("objective", SPEED))
    answer = answer_so_far(plan, trials, objective, ending)
    device = "" if "records" in about else str(about.get("device"))
    return with_config(answer, plan, trials, device)


def as_json(
    answer: Answer,
    plan: Plan,
    study: str,
    output: str = "",
    about: Mapping[str, Any] | None = None,
    commands: Sequence[str] = (),
    others: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the answer as one JSON object.

    ``about`` describes the study, ``commands`` are those to type next. ``others`` are
    the files that were written besides ``output``.
    ``docs/reference/json.md`` describes its fields.
    """
    space, measured, record = plan.space, answer.measured, answer.record
    pair, about = measured.pair, about or {}
    second = answer.runner_up
    return {
        "version": 2,
        "knobs": None if answer.chosen is None else space.values(answer.chosen),
        "verdict": answer.verdict,
        "tokens_per_second": _figures(answer.speed),
        "gain": as_data(measured.gain),
        "fp8_gain": measured.fp8_gain and measured.fp8_gain.value,
        "fp8_gain_interval": as_data(measured.fp8_gain),
        "fp8_gain_of": pair and {n: space.values(p) for n, p in pair._asdict().items()},
        "trials": answer.trials,
        "chosen_trials": list(answer.numbers),
        "oom_trials": answer.oom_trials,
        "seconds": round(answer.seconds, 3),
        "output": output or None,
        "other_outputs": list(others),
        "study": study,
        "findings": [
            {"code": each.code, "message": message(each), **each.data()}
            for each in answer.findings
        ],
        "pairs": answer.pairs,
        "settings": {"tried": answer.tried, "untried": answer.untried},
        "runner_up": second
        and {"knobs": space.values(second), "gain": as_data(answer.runner_up_gain)},
        "objective": answer.objective,
        "tokens_per_joule": _figures(answer.energy),
        "memory": record
        and {
            "peak_gib": record.peak_gib or None,
            "reserved_gib": record.reserved_gib or None,
            "capacity_gib": record.capacity_gib or None,
        },
        "memory_shortage": [
            {"knobs": space.values(point), "why": why}
            for point, why in answer.memory_shortage.items()
        ],
        "extrapolated": record.extrapolation if record else None,
        "synthetic_data": record and record.synthetic_data,
        "stability": _stability(answer, plan),
        "world_size": plan.config.job.target.world_size or None,
        "next": list(commands),
        "replay": "records" in about,
    }


def _figures(measured: Measured) -> dict[str, Any]:
    names = ("chosen", "baseline", "bf16_baseline")
    return {name: as_data(getattr(measured, name)) for name in names}


def _stability(answer: Answer, plan: Plan) -> dict[str, Any] | None:
    """Return the comparison of losses, of the chosen setting or of one rejected."""
    point, result = answer.chosen, answer.learns
    if result is None:
        point, result = next(iter(answer.rejected.items()), (None, None))
    two_models = UNTIED * is_untied(answer, plan)
    data = losses.as_json(result, answer.ending.unchecked, two_models)
    if data and point:
        data["knobs"] = plan.space.values(point)
    return data
