"""Do our readers read what tensorboard's and wandb's own writers write?

Needs ``torch``, ``tensorboard`` and ``wandb``. Writes runs with each, reads them with
fp8tune's readers, and compares with what was logged. ``--event-file FILE`` keeps the
event file, for the tests.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fp8tune.verify import event_files, wandb_files
from fp8tune.verify.scalars import Scalars

STEPS = 40
LOSSES = [math.nan if n == STEPS else 5 - n / 16 for n in range(1, STEPS + 1)]


def event_file(folder: Path) -> Path:
    """Write scalars in all three encodings, and things that are no scalars."""
    import torch

    writer: Any = import_module("torch.utils.tensorboard").SummaryWriter(str(folder))
    for step, loss in enumerate(LOSSES, 1):
        writer.add_scalar("train/loss", loss, step)
        writer.add_scalar("train/lr", loss, step, new_style=True)
        precise = {"new_style": True, "double_precision": True}
        writer.add_scalar("train/grad_norm", loss, step, **precise)
    writer.add_histogram("weights", torch.arange(999.0), 3)
    writer.add_text("config", "lr: 1", 1)
    writer.add_image("noise", torch.zeros(3, 20, 20), 1)
    writer.add_scalar("train/loss", 1.0, STEPS + 1)
    writer.close()
    return next(folder.glob("*tfevents*"))


def wandb_file(folder: Path) -> Path:
    """Write an offline run."""
    wandb: Any = import_module("wandb")
    run = wandb.init(project="p", dir=str(folder), mode="offline")
    for step, loss in enumerate(LOSSES, 1):
        run.log({"train/loss": loss, "text": "x", "nested": {"a": step}}, step=step)
    run.finish()
    return next(folder.rglob("*.wandb"))


def same(scalars: Scalars, tag: str, values: Sequence[float]) -> bool:
    """Return whether a tag has exactly these values at the steps 1, 2, 3."""
    points = scalars.points[tag]
    steps = list(map(float, range(1, len(values) + 1)))
    pairs = zip(points.value, values, strict=True)
    equal = all(a == b or (a != a and b != b) for a, b in pairs)
    return list(points.step) == steps and equal


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, read and compare."""
    parser = argparse.ArgumentParser("benchmarks.verify.real_files")
    parser.add_argument("--event-file", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path, scalars = event_file(Path(folder, "tb")), Scalars()
        event_files.read(str(path), scalars)
        found = {
            "train/loss": same(scalars, "train/loss", [*LOSSES, 1.0]),
            "train/lr": same(scalars, "train/lr", LOSSES),
            "train/grad_norm": same(scalars, "train/grad_norm", LOSSES),
            "nothing else": len(scalars.points) == 3 and not scalars.cut,
        }
        if options.event_file:
            shutil.copy(path, options.event_file)
        print("tensorboard", version("tensorboard"), found)
        path, other = wandb_file(Path(folder, "wb")), Scalars()
        wandb_files.read(str(path), other)
        read = {
            "train/loss": same(other, "train/loss", LOSSES),
            "nested.a": same(other, "nested.a", range(1, STEPS + 1)),
            "nothing else": len(other.points) == 2 and not other.cut,
        }
        print("wandb", version("wandb"), read)
    return 0 if all((*found.values(), *read.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
