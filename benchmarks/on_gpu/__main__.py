"""``python -m benchmarks.on_gpu COMMAND ...``: one command each.

``trial`` runs the config as it is, once or several times, which shows how far runs of a
setting differ; one GPU stands for all of its ranks. ``linears`` times every linear of
the config in bf16 and FP8, ``landscape`` runs every setting once: both go on where they
were cut off, so repeat the command until it says ``0 left``. ``traces`` records
profiler traces of FP8 and bf16 steps and checks what ``fp8tune verify`` says of them
(it takes no config). Results are data under benchmarks/results/on_gpu, with their
environment.

``take`` puts the archive of a session (benchmarks/gpu_session.sh) there and writes the
page; ``page`` only writes it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.on_gpu import landscape, linears, records, take, traces
from benchmarks.on_gpu.page import settings_table, write_page
from benchmarks.on_gpu.predicted import compare
from benchmarks.paths import RESULTS
from fp8tune.config.reader import Config
from fp8tune.facts.gpus import UnknownGpu, resolve
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.driver import current
from fp8tune.runners.watch import Guard
from fp8tune.search.plan import (
    Plan,
    config_to_search,
    plan_for_trials,
    ranks_of_trial,
)
from fp8tune.trials.runner import TrialLimits

Options = argparse.Namespace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of them; exit code 1 where nothing could be measured."""
    options = _parser().parse_args(arguments)
    options.results.mkdir(parents=True, exist_ok=True)
    call: Callable[[Options], int] = options.call
    return call(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks.on_gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    results = argparse.ArgumentParser(add_help=False)
    place = RESULTS / "on_gpu"
    results.add_argument("--results", type=Path, default=place, help="where they go")
    here = argparse.ArgumentParser(add_help=False, parents=[results])
    here.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    here.add_argument("--minutes", type=float, default=9.0, help="wall time to take")
    config = argparse.ArgumentParser(add_help=False, parents=[here])
    config.add_argument("config")
    config.add_argument("--gpu", default="", help="that predictions are of; else this")
    config.add_argument(
        "--world-size", type=int, default=0, help="of the run; else the config's"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, call, parent in (
        ("traces", profile, here),
        ("trial", trial, config),
        ("linears", time_linears, config),
        ("landscape", run_landscape, config),
        ("take", take_home, results),
        ("page", page, results),
    ):
        said = (call.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(name, parents=[parent], help=said)
        command.set_defaults(call=call)
        for option, more in OPTIONS.get(name, {}).items():
            command.add_argument(option, **more)
    return parser


OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "traces": {
        "--only": {"default": "", "help": "cases whose name contains this"},
        "--slow": {"action": "store_true", "help": "max-autotune too"},
    },
    "trial": {"--runs": {"type": int, "default": 1}},
    "linears": {
        "--largest": {"type": int, "default": linears.LARGE, "help": "largest M"}
    },
    "take": {
        "archive": {"type": Path, "help": "session.tgz"},
        "--commit": {"default": "", "help": "of a session that names none"},
    },
}
"""Options that one command alone has."""


def _config(options: Options) -> Config:
    """Read the config for the GPU here, or the one that is named."""
    here = current().gpu.name if options.device == "cuda" else ""
    gpu = options.gpu or here
    try:
        gpu = resolve(gpu) if gpu else ""
    except UnknownGpu:
        print(f"gpus.toml has no {gpu}: predictions are for the config's GPU")
        gpu = ""
    data = Path(options.config).read_bytes()
    target = records.target(gpu, options.world_size)
    return config_to_search(options.config, data, target, world_size=1)


def _plan(options: Options) -> Plan:
    # compiling takes a minute on a CPU and tells nothing
    free = ("precision", "compile") if options.device == "cuda" else ("precision",)
    return plan_for_trials(_config(options), free, options.device)


def _about(options: Options) -> dict[str, str]:
    import torch

    gpu = torch.cuda.get_device_name() if options.device == "cuda" else "none (CPU)"
    config = getattr(options, "config", "")
    return {**machine.describe("torch", "torchao"), "gpu": gpu, "config": config}


def _path(options: Options, what: str, suffix: str) -> Path:
    stem = Path(getattr(options, "config", "")).stem
    name = "_".join(filter(None, (what, stem, options.device)))
    path: Path = options.results / f"{name}{suffix}"
    return path


def profile(options: Options) -> int:
    """Record traces of FP8 and bf16 steps; show what verify says of them."""
    rows = []
    path, about = _path(options, "traces", ".json"), _about(options)
    chosen = traces.cases(options.device, slow=options.slow)
    todo = [case for case in chosen if options.only in case.name]
    for row in traces.measure(todo, options.device, _path(options, "traces", "")):
        rows.append(row)
        _write(path, {"about": about, "rows": rows})
        mark = "ok" if row["word"] in row["right"] else f"WRONG, not {row['right']}"
        counts = f"{row['fp8']} FP8, {row['other']} other, {row['unclear']} unclear"
        print(f"{row['case']}: {counts}: {row['word']} ({mark})", flush=True)
    return int(any(row["word"] not in row["right"] for row in rows))


ALIKE = ("gpu", "torch", "torchao", "config")
"""What rows of one file have in common."""


def time_linears(options: Options) -> int:
    """Time every linear of a config in bf16 and in FP8."""
    end = time.monotonic() + options.minutes * 60
    place, about = _path(options, "linears", ".json"), _about(options)
    kept = json.loads(place.read_text()) if place.exists() else {}
    alike = all(kept.get("about", {}).get(name) == about[name] for name in ALIKE)
    rows = kept["rows"] if alike else []
    measured = {linears.Row(**row)[: len(linears.Shape._fields)] for row in rows}
    every = list(linears.shapes(_config(options).job, options.largest))
    left = [shape for shape in every if shape not in measured]
    for row in linears.measure(left, options.device):
        rows.append(row._asdict())
        _write(place, {"about": about, "rows": rows})
        said = f"{row.gain:.2f} x" if row.gain else "out of memory"
        what = f"{row.name} M {row.m} K {row.k} N {row.n}"
        print(f"{what}: {said} (predicted {row.predicted:.2f} x)", flush=True)
        if time.monotonic() > end:
            break
    print(f"{len(rows)} linears recorded, {len(every) - len(rows)} left")
    return int(len(rows) < len(every))


def _runner(options: Options, setup: Setup, config: Config) -> Builtin:
    """Return what runs trials of a config, with an eye on the GPU."""
    guard = Guard(current()) if options.device == "cuda" else None
    return Builtin(config, setup, guard=guard)


def trial(options: Options) -> int:
    """Run a config as it is, once or several times, in fresh processes."""
    config = _config(options)
    setup = landscape.setup(options.device, ranks_of_trial(config))
    runner = _runner(options, setup, config)
    path, failed = _path(options, "trial", ".jsonl"), 0
    end = time.monotonic() + options.minutes * 60
    for _ in range(options.runs):
        left = end - time.monotonic()
        record = runner.run({}, TrialLimits(max(left, 1.0)))
        records.add(path, config, record)
        failed += not record.ok
        said = f"{record.tokens_per_second:,.1f} tokens/s, {record.peak_gib:.2f} GiB"
        print(said if record.ok else f"{record.outcome}: {record.message}", flush=True)
    print("\n".join(settings_table(compare(records.read(path)))))
    return int(failed > 0)


def run_landscape(options: Options) -> int:
    """Run every setting of a config once."""
    plan = _plan(options)
    runner = _runner(options, landscape.setup(options.device, 1), plan.config)
    path = _path(options, "landscape", ".jsonl")
    for point, record in landscape.run(plan, runner, path, options.minutes * 60):
        landscape.tell(plan, point, record)
    every = list(records.read(path)) if path.exists() else []
    print("\n".join(settings_table(compare(every))))
    left = len(landscape.settings(plan)) - len(every)
    print(f"{len(every)} settings recorded, {left} left", file=sys.stderr)
    return int(not every)


def take_home(options: Options) -> int:
    """Put the archive of a session into the recorded results."""
    try:
        folder = take.take(options.archive, options.results, options.commit)
    except take.Refused as error:
        print(error, file=sys.stderr)
        return 2
    print(f"results: {folder}")
    return page(options)


def page(options: Options) -> int:
    """Write the page of all sessions, and docs/accuracy.md."""
    from benchmarks.estimates.__main__ import main as write_accuracy

    print(f"page: {write_page(options.results)}")
    if options.results == RESULTS / "on_gpu":
        write_accuracy(["--quiet"])
    return 0


def _write(path: Path, said: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(f"{json.dumps(said, indent=1)}\n", encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
