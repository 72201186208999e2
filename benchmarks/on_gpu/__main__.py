"""``python -m benchmarks.on_gpu COMMAND CONFIG``: one command each.

``watching`` shows what the driver tells of the GPU (it takes no config). ``trial`` runs
the config once, as it is; one GPU stands for all of its ranks. ``repeat`` runs it again
and again, which shows how far runs of a setting differ. ``linears`` times every
linear of the config in bf16 and FP8, ``landscape`` runs every setting once: both go on
where they were cut off, so repeat the command until it says ``0 left``. ``search``
searches as a user would, ``transfer`` does so on a near config as well (repeat it until
no search is left). ``traces`` records profiler traces of FP8 and bf16 steps and checks
what ``fp8tune verify`` says of them (it takes no config). Results are data under
benchmarks/results/on_gpu, with their environment.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.on_gpu import landscape, linears, predicted, traces, transfer, watching
from benchmarks.paths import RESULTS
from fp8tune.job import Target
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.driver import current
from fp8tune.runners.watch import Guard
from fp8tune.search.plan import (
    Plan,
    TrainConfig,
    plan_for_trials,
    ranks_of_trial,
    read_config,
)
from fp8tune.trials.record import Record, parse_all
from fp8tune.trials.runner import TrialLimits


def main(arguments: list[str] | None = None) -> int:
    """Run one of them; exit code 1 where nothing could be measured."""
    parser = argparse.ArgumentParser(prog="benchmarks.on_gpu", description=__doc__)
    parser.add_argument("what", choices=tuple(COMMANDS))
    parser.add_argument("config", nargs="?", default="")
    parser.add_argument("--minutes", type=float, default=9.0, help="wall time to take")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument(
        "--gpu", default="", help="as in fp8tune lint; else the config's"
    )
    parser.add_argument(
        "--world-size", type=int, default=0, help="of trial; else the config's"
    )
    parser.add_argument("--runs", type=int, default=20, help="of repeat")
    parser.add_argument("--largest", type=int, default=linears.LARGE, help="largest M")
    parser.add_argument(
        "--results", type=Path, default=RESULTS / "on_gpu", help="where they go"
    )
    options = parser.parse_args(arguments)
    if not options.config and options.what not in ("watching", "traces"):
        parser.error(f"{options.what} needs a config")
    options.results.mkdir(parents=True, exist_ok=True)
    return COMMANDS[options.what](options)


def _plan(options: argparse.Namespace) -> Plan:
    data = Path(options.config).read_bytes()
    config = read_config(options.config, data, Target(options.gpu, 1))
    # compiling takes a minute on a CPU and tells nothing
    free = ("precision", "compile") if options.device == "cuda" else ("precision",)
    return plan_for_trials(config, free, options.device)


def _about(options: argparse.Namespace) -> dict[str, str]:
    import torch

    gpu = torch.cuda.get_device_name() if options.device == "cuda" else "none (CPU)"
    return {
        **machine.describe("torch", "torchao"),
        "gpu": gpu,
        "config": options.config,
    }


def _name(options: argparse.Namespace, what: str) -> Path:
    parts = what, Path(options.config).stem, options.device
    place: Path = options.results / "_".join(filter(None, parts))
    return place


def _watching(options: argparse.Namespace) -> int:
    said = watching.measure(options.device, seconds=5.0)
    _write(_name(options, "watching").with_suffix(".json"), {**_about(options), **said})
    for name, value in said.items():
        print(f"{name}: {value}")
    return int(not said["name"])


def _traces(options: argparse.Namespace) -> int:
    rows = []
    for row in traces.measure(options.device, _name(options, "traces")):
        rows.append(row)
        mark = "ok" if row["word"] in row["right"] else f"WRONG, not {row['right']}"
        counts = f"{row['fp8']} FP8, {row['other']} other, {row['unclear']} unclear"
        print(f"{row['case']}: {counts}: {row['word']} ({mark})", flush=True)
    path = _name(options, "traces").with_suffix(".json")
    _write(path, {"about": _about(options), "rows": rows})
    return int(any(row["word"] not in row["right"] for row in rows))


ALIKE = ("gpu", "torch", "torchao", "config")
"""What rows of one file have in common."""


def _linears(options: argparse.Namespace) -> int:
    """Write each row as soon as it is measured; those that are there are not again."""
    end = time.monotonic() + options.minutes * 60
    place, about = _name(options, "linears").with_suffix(".json"), _about(options)
    kept = json.loads(place.read_text()) if place.exists() else {}
    alike = all(kept.get("about", {}).get(name) == about[name] for name in ALIKE)
    rows = kept["rows"] if alike else []
    known = {linears.Row(**row)[: len(linears.Shape._fields)] for row in rows}
    every = list(linears.shapes(_plan(options).config.job, options.largest))
    left = [shape for shape in every if shape not in known]
    for row in linears.measure(left, options.device):
        rows.append(row._asdict())
        _write(place, {"about": about, "rows": rows})
        said = f"{row.gain:.2f} x" if row.gain else "out of memory"
        what = f"{row.name} M {row.m} K {row.k} N {row.n}"
        print(f"{what}: {said} (predicted {row.predicted:.2f} x)", flush=True)
        if time.monotonic() > end:
            break
    print(f"{len(rows)} linears recorded, {len(every) - len(rows)} left")
    return int(not rows)


def _runner(options: argparse.Namespace, setup: Setup, config: TrainConfig) -> Builtin:
    """Return what runs trials of a config, with an eye on the GPU."""
    guard = Guard(current()) if options.device == "cuda" else None
    job = config.job
    return Builtin(config.trainer, config.loaded, job.target, setup, guard=guard)


def _trial(options: argparse.Namespace) -> int:
    """Run the config as it is, on one GPU that stands for all of its ranks."""
    target = Target(options.gpu, options.world_size)
    config = read_config(options.config, Path(options.config).read_bytes(), target)
    setup = landscape.setup(options.device, ranks_of_trial(config))
    runner = _runner(options, setup, config)
    record = runner.run({}, TrialLimits(options.minutes * 60))
    place = _name(options, "trial").with_suffix(".json")
    predicted_gib = float(config.job["memory.peak_gib"])
    said = {"record": json.loads(record.line()), "predicted_gib": predicted_gib}
    _write(place, {"about": _about(options), **said})
    print(f"{record.outcome}: {record.tokens_per_second:,.0f} tokens/s")
    peak = f"{record.peak_gib:.2f} GiB allocated, {record.reserved_gib:.2f} reserved"
    print(f"{peak}, {predicted_gib:.2f} predicted")
    for name in ("message", "losses", "grad_norms", "alloc_retries", "discarded"):
        print(f"{name}: {record.data().get(name)}")
    return int(not record.ok)


def _repeat(options: argparse.Namespace) -> int:
    """Run one trial again and again, in fresh processes; add each to the records."""
    data = Path(options.config).read_bytes()
    config = read_config(options.config, data, Target(options.gpu, 1))
    setup = Setup(options.device)
    if options.device == "cpu":
        setup = setup._replace(min_steps=3, max_steps=6, warm_steps=1)
    runner = _runner(options, setup, config)
    failed = 0
    with _name(options, "repeat").with_suffix(".jsonl").open("a") as file:
        for number in range(options.runs):
            record = runner.run({}, TrialLimits(landscape.LONGEST_S))
            print(record.line(), file=file, flush=True)
            failed += not record.ok
            speed = f"{record.tokens_per_second:,.1f} tokens/s"
            print(f"{number + 1}: {speed if record.ok else record.outcome}")
    return int(failed > 0)


def _landscape(options: argparse.Namespace) -> int:
    plan = _plan(options)
    config = plan.config
    setup = landscape.setup(options.device, 1)
    runner = Builtin(config.trainer, config.loaded, config.job.target, setup)
    records = _name(options, "landscape").with_suffix(".jsonl")
    for point, record in landscape.run(plan, runner, records, options.minutes * 60):
        landscape.tell(plan, point, record)
    with records.open(encoding="utf-8") as file:
        found = list(parse_all(iter(file)))
    _compared(options, plan, found, {})
    left = len(landscape.settings(plan)) - len(found)
    print(f"{len(found)} settings recorded, {left} left", file=sys.stderr)
    return int(not found)


def _answer(
    options: argparse.Namespace, config: Path | str, output: Path, *more: str
) -> dict[str, Any]:
    """Search as a user would; return the answer, empty where there is none."""
    command = [sys.executable, "-m", "fp8tune", "search", str(config), *more]
    command += ["--budget", f"{int(options.minutes * 60)}s", "--device", options.device]
    command += ["--studies", str(options.results / "studies"), "--output", str(output)]
    command += ["--output-format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    answer: dict[str, Any] = json.loads(done.stdout.strip() or "{}")
    return answer


def _search(options: argparse.Namespace) -> int:
    place = _name(options, "search")
    answer = _answer(options, options.config, place.with_suffix(".toml"))
    if not answer:
        return 1
    trials = Path(answer["study"]) / "trials.jsonl"
    shutil.copy(trials, place.with_suffix(".jsonl"))
    with trials.open(encoding="utf-8") as file:
        _compared(options, _plan(options), list(parse_all(iter(file))), answer)
    return 0


def _transfer(options: argparse.Namespace) -> int:
    """The next of three searches that is not recorded yet."""
    plan, place = _plan(options), _name(options, "transfer").with_suffix(".json")
    kept: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {}
    steps: dict[str, Any] = kept.get("steps", {})
    step = next((name for name in transfer.STEPS if name not in steps), "")
    if step:
        config = options.config
        if step != "first":
            config = transfer.near(plan, options.results)
        start = steps["first"]["study"] if step == "started" else "none"
        output = options.results / "transfer.toml"
        answer = _answer(options, config, output, "--start-from", start)
        if not answer:
            return 1
        here = Path(answer["study"]).name
        steps[step] = {**transfer.told(answer), "study": here}
        _write(place, {"about": _about(options), "steps": steps})
    print("\n".join(transfer.lines(steps)))
    return 0


def _compared(
    options: argparse.Namespace, plan: Plan, found: list[Record], answer: dict[str, Any]
) -> None:
    """Write what was measured beside what was predicted, and say the worst."""
    if options.device == "cpu":
        return  # predictions are of a GPU
    rows = predicted.compare(plan, found)
    memory = predicted.worst((row.peak_gib, row.predicted_gib) for row in rows)
    speed = predicted.worst(
        (row.tokens_per_second, row.predicted_tokens_per_second) for row in rows
    )
    best = max((row.tokens_per_second for row in rows), default=0.0)
    said = {
        "about": _about(options),
        "answer": {k: v for k, v in answer.items() if k not in ("study", "output")},
        "worst_memory_error": memory,
        "worst_speed_error": speed,
        "best_tokens_per_second": best,
        "published_bf16_tokens_per_second": predicted.PUBLISHED,
        "settings": [row._asdict() for row in rows],
    }
    _write(_name(options, options.what).with_suffix(".json"), said)
    for name, error in (("memory", memory), ("speed", speed)):
        known = "nothing predicted" if error is None else f"worst {100 * error:.1f} %"
        print(f"{name}, predicted against measured: {known}")
    print(f"best {best:,.0f} tokens/s; published in bf16 {predicted.PUBLISHED:,.0f}")


def _write(path: Path, said: dict[str, Any]) -> None:
    path.write_text(f"{json.dumps(said, indent=1)}\n", encoding="utf-8")


COMMANDS = {
    "traces": _traces,
    "watching": _watching,
    "trial": _trial,
    "repeat": _repeat,
    "linears": _linears,
    "landscape": _landscape,
    "search": _search,
    "transfer": _transfer,
}

if __name__ == "__main__":
    sys.exit(main())
