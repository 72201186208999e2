"""Train small models with the trainer's own script, and look at what was kept."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.rule_evidence.config import shrink, with_data
from benchmarks.rule_evidence.launch import Run, launch

Kept = dict[str, Any]
"""What one rank kept (``rank.Keeper``)."""
COMMON = {
    "train.mixed_precision": "fp32",
    "data.dataset_path": "/data/tokens",
    "checkpoint.interval": 1000,  # so that the end of a run saves, and nothing before
}


class Trained(NamedTuple):
    """A run that ended: its first error, what each rank kept, its checkpoints."""

    error: str
    ranks: list[Kept]
    checkpoints: Path


class Lab:
    """Runs of one checkout, in folders below one folder."""

    def __init__(self, checkout: Path, folder: Path, timeout: float) -> None:
        self.checkout, self.folder, self.timeout = checkout, folder, timeout
        self.count = 0

    def train(self, ranks: int, keys: Mapping[str, Any]) -> Trained:
        """Train with these keys on ranks; raises ``RuntimeError`` where it fails."""
        trained = self.attempt(ranks, keys)
        if trained.error:
            raise RuntimeError(f"{dict(keys)} on {ranks} ranks: {trained.error}")
        return trained

    def attempt(self, ranks: int, keys: Mapping[str, Any]) -> Trained:
        """The same, whatever comes of it."""
        self.count += 1
        folder = self.folder / f"run{self.count}"
        checkpoints = folder / "checkpoints"
        whole = {**COMMON, "checkpoint.dir": str(checkpoints), **keys}
        text = with_data(shrink(toml(whole), "cpu"), self.folder)
        command = [sys.executable, "-m", f"{__package__}.rank"]
        run = Run(self.checkout, text, "cpu", ranks, [], self.timeout)
        seen = launch(run, folder, command)
        torch: Any = import_module("torch")
        kept = [
            torch.load(path) if path.exists() else {}
            for path in (folder / f"rank{rank}.pt" for rank in range(ranks))
        ]
        logs = [(folder / f"rank{rank}.log").read_text() for rank in range(ranks)]
        said = seen["error"] and cause(logs, seen["error"])
        here = Path(whole["checkpoint.dir"])
        return Trained(said.replace(str(self.folder), "..."), kept, here)


def cause(logs: list[str], error: str) -> str:
    """The last error that the logs tell, which torch quotes below its own."""
    said = re.findall(r"^[\w.]+(?:Error|Exception): .+$", "\n".join(logs), re.MULTILINE)
    return str(said[-1]) if said else error


def toml(keys: Mapping[str, Any]) -> str:
    """A config by dotted keys."""
    sections: dict[str, list[str]] = {}
    for key, value in keys.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"{name} = {json.dumps(value)}")
    blocks = ("\n".join((f"[{name}]", *lines)) for name, lines in sections.items())
    return "\n".join(blocks) + "\n"
