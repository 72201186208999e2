"""The answer of a search as JSON, as it is printed and stored in the study.

And the command to type after it: one for terminal, JSON, comments and report.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from os.path import splitext
from typing import Any, NamedTuple

from fp8tune.search.answer.answer import (
    SAME_COMMAND,
    Answer,
    Ending,
    Measured,
    as_data,
    is_untied,
)
from fp8tune.search.answer.decide import answer_so_far, with_config
from fp8tune.search.answer.wording import UNTIED, message
from fp8tune.search.budget import show_duration, typed
from fp8tune.search.database import HIDDEN
from fp8tune.search.description import Description
from fp8tune.search.linting import command_on, quoted
from fp8tune.search.losses import findings as losses
from fp8tune.search.options import is_same
from fp8tune.search.plan import Plan
from fp8tune.search.saved_study import SavedStudy

ON_CPU = ("device", "workers", "heartbeat")
"""Options of a rehearsal that a search on a GPU does not take over: as many workers of
this machine need as many GPUs."""


def stored_answer(study: SavedStudy) -> Mapping[str, Any]:
    """Return the answer of a study as its search has stored it.

    A search that has not ended has the answer that its trials so far give.
    """
    stored = study.about.get("answer")
    if isinstance(stored, dict):
        return stored
    plan, about, output = study.plan, study.about, study.about.output
    answer = answer_of(study, Ending(SAME_COMMAND) if output is None else Ending())
    commands = next_commands(plan, about, answer, output)
    data = as_json(answer, plan, study.folder, output or "", about, commands)
    return to_store(answer, plan, data)


def to_store(answer: Answer, plan: Plan, data: dict[str, Any]) -> dict[str, Any]:
    """Return what a study stores: the JSON object, and every setting tried."""
    settings = answer.settings.values()
    return {
        **data,
        "answered_by": answer.answered_by,
        "interrupted": answer.ending.next_step == SAME_COMMAND,
        "speed_changed": answer.speed_changed,
        "tried": [setting.data(plan.space) for setting in settings],
    }


def answer_of(study: SavedStudy, ending: Ending) -> Answer:
    """Return the answer that the trials of a study give."""
    plan, trials, about = study.plan, study.trials, study.about
    compares = about.compares_losses
    answer = answer_so_far(
        plan, trials, about.objective, ending, compares_losses=compares
    )
    return with_config(answer, plan, trials, about.device)


def as_json(
    answer: Answer,
    plan: Plan,
    study: str,
    output: str = "",
    about: Description | None = None,
    commands: Sequence[str] = (),
    others: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the answer as one JSON object.

    ``about`` describes the study, ``commands`` are those to type next. ``others`` are
    the files that were written besides ``output``.
    ``docs/reference/json.md`` describes its fields.
    """
    space, measured, record = plan.space, answer.measured, answer.record
    pair, about = measured.pair, about or Description()
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
        "replay": about.is_replay,
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


def next_commands(
    plan: Plan, about: Description, outcome: Answer, output: str | None
) -> list[str]:
    """Return the command to type after a search, and what to type before it.

    ``about`` describes the study. ``output`` is the tuned config, ``""`` if none was
    written, ``None`` if the search was cut off before its end.
    """
    study = _Study(plan, about, outcome)
    if output is None or outcome.ending.next_step == SAME_COMMAND:
        command = study.continued()
    elif outcome.chosen is None:
        command = study.after_failure()
    else:
        command = study.after_answer(output)
    is_search = command.startswith("fp8tune search ")
    return [*(password_lines(about) if is_search else ()), command]


def password_lines(about: Description) -> Iterator[str]:
    """Yield the command that sets a storage with a password, which no file has."""
    storage = str(about.options.get("storage"))
    if HIDDEN in storage:
        yield f"export FP8TUNE_STORAGE={quoted(storage)}  # with its password"


class _Study(NamedTuple):
    """A study after its search, and the commands that may follow."""

    plan: Plan
    about: Description
    outcome: Answer

    @property
    def path(self) -> str:
        """The config as a command takes it."""
        return quoted(self.plan.config.typed_path)

    @property
    def fp8_loses(self) -> bool:
        """Whether bf16 is faster or FP8 diverges, and bf16 was not allowed."""
        fp8 = self.outcome.measured.fp8_verdict
        loses = self.outcome.is_conclusive and fp8 == "slower"
        loses = loses or self.outcome.find("allow-precision") is not None
        return loses and not {"precision", "fp8"}.intersection(self.about.allowed)

    @property
    def on_cpu(self) -> bool:
        """Whether the search was a rehearsal."""
        return self.about.device == "cpu"

    def again(self, budget: str = "", but: Container[str] = (), more: str = "") -> str:
        """Return the search's own command, by default with the same budget."""
        budget = budget or str(self.about.options.get("budget") or self.longer)
        arguments = "".join(f" {quoted(word)}" for word in self.plan.config.written)
        behind = f" --{arguments}" * bool(arguments)
        options = f"{options_of(self.about, but=but)}{more}{behind}"
        return f"fp8tune search {self.path} --budget {budget}{options}"

    @property
    def longer(self) -> str:
        """A budget of at least one hour more than was spent."""
        return f"{max(2, math.ceil(self.outcome.seconds / 3600 + 1))}h"

    def continued(self, budget: str = "") -> str:
        """Return the command that continues the study."""
        spent = show_duration(self.outcome.seconds)
        return f"{self.again(budget)}  # continues: {spent} of it are spent"

    @property
    def larger_budget(self) -> str:
        """The budget that a finding says would settle it; ``""`` if none does."""
        for code, facts in self.outcome.findings:
            if code == "failed-before":
                continue
            if seconds := facts.get("budget_s"):
                return typed(seconds)
            if facts.get("next_step"):
                return self.longer
        return ""

    def after_failure(self) -> str:
        """Return the command after a search that chose nothing."""
        find = self.outcome.find
        if not self.outcome.trials:
            return self.continued()
        if find("run-doctor"):
            return f"fp8tune doctor{' --device cpu' * self.on_cpu}"
        if find("repair-and-retry"):
            return self.again()
        if self.fp8_loses:
            return self.again(more=" --allow precision")
        if find("config-loses-its-loss"):
            return "fp8tune explain nan-loss"
        if budget := self.larger_budget:
            return self.continued(budget)
        does = "estimate" if find("try-less-memory") else "lint"
        return command_on(self.plan.config, does)

    def after_answer(self, output: str) -> str:
        """Return the command after a search that chose a setting."""
        if self.fp8_loses:
            return self.again(more=" --allow precision")
        if budget := self.larger_budget:
            return self.continued(budget)
        if self.on_cpu:
            workers = {"workers"} if "slurm" in self.about.options else set()
            return f"{self.again('2h', but={*ON_CPU} - workers)}  # on a GPU"
        config = self.plan.config
        files = config.bytes_by_path
        in_place = output and any(is_same(output, path) for path in files)
        if output and not in_place:
            versions = (p for p in files if output.startswith(f"{splitext(p)[0]}."))
            of = max(versions, key=len, default=config.typed_path)
            return f"diff {quoted(of)} {quoted(output)}"
        if self.outcome.chosen != self.plan.baseline and not output:
            return f"{self.again()}  # writes it"
        return command_on(config, "lint")


def options_of(about: Description, *only: str, but: Container[str] = ()) -> str:
    """Return the options of a study's last search, or ``only`` some of them.

    A storage with a password is left to FP8TUNE_STORAGE, as no file has the password.
    """
    words = [""]
    for name, value in about.options.items():
        hidden = name == "storage" and HIDDEN in str(value)
        if hidden or name == "budget" or name in but or (only and name not in only):
            continue
        option = quoted(f"--{name.replace('_', '-')}")
        for each in value if isinstance(value, list) else [value]:
            words += [option] if each is True else [option, quoted(str(each))]
    return " ".join(words)
