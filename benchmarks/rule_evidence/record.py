"""Outcomes as data, and as a table to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.rows import write
from benchmarks.rule_evidence.plan import Task

Outcome = dict[str, Any]
NOT_RUN = "not run"


class Record:
    """The recorded outcomes of all experiments, each with the machine it ran on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        said = json.loads(path.read_text()) if path.exists() else {"outcomes": []}
        self.outcomes: dict[tuple[str, int, str], Outcome] = {
            (said["rule"], said["experiment"], said["device"]): said
            for said in map(_whole(said), said["outcomes"])
        }

    def keep(self, tasks: list[Task]) -> None:
        """Drop the outcomes of experiments that are no more, or read otherwise now."""
        current = {task.key: task.digest for task in tasks}
        self.outcomes = {
            key: outcome
            for key, outcome in self.outcomes.items()
            if current.get(key) == outcome["digest"]
        }

    def add(self, task: Task, outcome: Outcome) -> None:
        """Put an outcome in; one that was not run replaces none."""
        if outcome["verdict"] == NOT_RUN and self.ran(task):
            return
        head = zip(("rule", "experiment", "device"), task.key, strict=True)
        said = {"digest": task.digest, "expect": task.experiment.expect}
        self.outcomes[task.key] = {**dict(head), **said, **outcome}

    def ran(self, task: Task) -> bool:
        """Whether there is an outcome of a run."""
        outcome = self.outcomes.get(task.key)
        return outcome is not None and outcome["verdict"] != NOT_RUN

    def save(self) -> None:
        """Write the data, and the table beside it."""
        environments: list[Any] = []
        outcomes = []
        for _, outcome in sorted(self.outcomes.items()):
            ran_on = outcome.get("environment")
            if ran_on is not None and ran_on not in environments:
                environments.append(ran_on)
            where = None if ran_on is None else environments.index(ran_on)
            outcomes.append({**outcome, "environment": where})
        data = {"environments": environments, "outcomes": outcomes}
        write(self.path, f"{json.dumps(data, indent=2)}\n")
        text = table(environments, outcomes)
        self.path.with_suffix(".md").write_text(text, encoding="utf-8")


def _whole(said: dict[str, Any]) -> Any:
    """A function from an outcome as saved to one with its environment inside."""
    places = said.get("environments", [])

    def whole(outcome: Outcome) -> Outcome:
        where = outcome["environment"]
        return {**outcome, "environment": None if where is None else places[where]}

    return whole


def table(environments: list[dict[str, str]], outcomes: list[Outcome]) -> str:
    """The outcomes as Markdown, the machines above them."""
    places = [
        f"- {chr(65 + index)}: {', '.join(f'{k} {v}' for k, v in place.items())}"
        for index, place in enumerate(environments)
    ]
    rows = [_row(outcome) for outcome in outcomes]
    head = ("rule", "no.", "on", "verdict", "expected", "observed", "control")
    note = "Written by `python -m benchmarks.rule_evidence`; see benchmarks/README.md."
    parts = ["# Rules, shown", note, "\n".join(places), machine.table(rows, head)]
    return "\n\n".join(parts) + "\n"


def _row(outcome: Outcome) -> tuple[str, ...]:
    where = outcome["environment"]
    on = "" if where is None else f", {chr(65 + where)}"
    why = f": {outcome['reason']}" if outcome["reason"] else ""
    return (
        outcome["rule"],
        str(outcome["experiment"]),
        f"{outcome['device']}{on}",
        _cell(f"{outcome['verdict']}{why}"),
        f"`{_cell(outcome['expect'])}`",
        _cell(_shown(outcome.get("observed", {}))),
        _cell(_shown(outcome.get("control", {}))),
    )


def _shown(seen: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in seen.items() if value != "")


def _cell(text: str) -> str:
    """Text that stays inside a cell of a table."""
    plain = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return f"{plain[:240]}..." if len(plain) > 240 else plain
