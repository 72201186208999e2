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
from fp8tune.runners.builtin.team import join
from fp8tune.trainers.trainer import trainer


def spec_of(text: str, device: str, *, shards: int, ranks: int) -> Spec:
    """The spec of a trial of this config, as its worker gets it."""
    known = trainer("kempnerforge")
    job = known.job(known.load(tomllib.loads(text)), Target(world_size=shards))
    given = from_job(job, device=device, dp_shard=shards, ranks=ranks)._asdict()
    return from_json(json.loads(json.dumps(given)))


def train(spec: Spec, steps: int, watch: Watch) -> None:
    """Train as a worker does, watched."""
    with watch:
        model, _ = build(spec)
        watch.know(model)
        training = Training(model, spec, batches(spec))
        for _ in range(steps):
            watch.step_begins()
            taken = training.step()
            watch.step_ends(taken.loss, taken.grad_norm)


def main(task: Path) -> None:
    """Run the trial, and report as a rank of the script does."""
    said = json.loads(task.read_text())
    watch = prepare(task)
    text = (task.parent / "config.toml").read_text()
    ranks = int(os.environ["WORLD_SIZE"])
    shards = next((int(name) for name in said["names"] if name.isdigit()), ranks)
    spec = spec_of(text, said["device"], shards=shards, ranks=ranks)
    if ranks > 1:
        join(said["device"])
    steps = tomllib.loads(text)["train"]["max_steps"]
    train(spec, steps, watch)
    report = {"error": "", "failed_at": "", **watch.seen(), "ended": time.time()}
    (task.parent / f"rank{os.environ['RANK']}.json").write_text(json.dumps(report))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # process groups may hang at exit


if __name__ == "__main__":
    main(Path(sys.argv[1]))
