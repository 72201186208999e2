"""One rank of the built-in trial, watched: ``-m ...as_trial TASK``."""

from __future__ import annotations

import json
import os
import sys
import time
import tomllib
from pathlib import Path

from benchmarks.stand_in.by_trainer import prepare
from benchmarks.stand_in.watch import Watch
from fp8tune.job import Target
from fp8tune.runners.builtin.convert import build
from fp8tune.runners.builtin.data import batches
from fp8tune.runners.builtin.spec import Spec, from_job, from_json
from fp8tune.runners.builtin.step import Training
from fp8tune.trainers.trainer import trainer


def spec_of(text: str, ranks: int, device: str) -> Spec:
    """The spec of a trial of this config, as its worker gets it."""
    known = trainer("kempnerforge")
    job = known.job(known.load(tomllib.loads(text)), Target(world_size=ranks))
    given = from_job(job, device=device, dp_shard=ranks)._asdict()
    return from_json(json.loads(json.dumps(given)))


def train(spec: Spec, steps: int, *, profiled: bool) -> Watch:
    """Train as a worker does, watched."""
    with Watch(profiled=profiled) as watch:
        model, _ = build(spec)
        watch.know(model)
        training = Training(model, spec, batches(spec))
        for _ in range(steps):
            watch.step_begins()
            taken = training.step()
            watch.step_ends(taken.loss, taken.grad_norm)
    return watch


def main(task: Path) -> None:
    """Run the trial, and report as a rank of the script does."""
    said = json.loads(task.read_text())
    profiled = prepare(task)
    text = (task.parent / "config.toml").read_text()
    ranks = next((int(n) for n in said["names"] if n.isdigit()), 1)
    spec = spec_of(text, ranks, said["device"])
    steps = tomllib.loads(text)["train"]["max_steps"]
    watch = train(spec, steps, profiled=profiled)
    report = {"error": "", "failed_at": "", **watch.seen(), "ended": time.time()}
    (task.parent / f"rank{os.environ['RANK']}.json").write_text(json.dumps(report))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # process groups may hang at exit


if __name__ == "__main__":
    main(Path(sys.argv[1]))
