"""Compare our learning rates with those of the trainers' own schedulers.

``python -m benchmarks.verify.schedule --kempnerforge CHECKOUT --torchtitan FOLDER``
needs torch; FOLDER has the unpacked wheels, by version. Each combination of the values
below steps the trainer's scheduler to the end of the run; every rate must be the same
float.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from benchmarks.machine import table
from benchmarks.search.recording import record
from fp8tune.trainers.trainer import trainer

TOTAL = 50
VALUES: dict[str, dict[str, list[Any]]] = {
    "kempnerforge": {
        "scheduler.name": ["cosine", "linear", "wsd", "constant", "rex", "none"],
        "scheduler.warmup_steps": [0, 1, 7, 50, 80],
        "scheduler.decay_steps": [None, 0, 1, 20, 90, -3],
        "scheduler.min_lr_ratio": [0.0, 0.1],
        "scheduler.stable_steps": [None, 10, 60],
        "scheduler.wsd_decay_type": ["cosine", "linear", "sqrt"],
        "scheduler.rex_alpha": [1.0, 0.5],
    },
    "torchtitan": {
        "lr_scheduler.decay_type": ["linear", "sqrt", "cosine"],
        "lr_scheduler.warmup_steps": [0, 1, 7, 50, 80],
        "lr_scheduler.decay_ratio": [None, 0.0, 0.01, 0.25, 0.9, 1.0],
        "lr_scheduler.min_lr_factor": [0.0, 0.1],
        "lr_scheduler.total_steps": [None, 60, 200],
    },
}
"""Values that are combined. 80 steps of warmup are longer than the run."""
PEAK = 3e-4


def main() -> int:
    """Compare all combinations and print how many rates were equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kempnerforge", type=Path)
    parser.add_argument("--torchtitan", type=Path)
    parser.add_argument("--prime-rl", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(compared(*options.one)))
        return 0
    places = {}
    if options.kempnerforge:
        places["kempnerforge"] = options.kempnerforge
    for place in sorted(options.torchtitan.glob("0.*")) if options.torchtitan else ():
        places[f"torchtitan=={place.name}"] = place
    figures = [alone(name, str(place.resolve())) for name, place in places.items()]
    rows = [tuple(map(str, figure.values())) for figure in figures]
    page = table(rows, ("trainer", "schedules", "rates", "equal"))
    resumed = of_prime_rl(options.prime_rl) if options.prime_rl else []
    if resumed:
        rows = [tuple(map(str, figure.values())) for figure in resumed]
        about = (
            "prime-rl, resumed at step 20 of a run that was to end there, to step 50"
        )
        page += f"\n\n{about}:\n\n{table(rows, tuple(resumed[0]))}"
    print(page)
    if options.record:
        note = "Written by `python -m benchmarks.verify.schedule`; see its docstring."
        text = f"# Learning rates against the trainers' schedulers\n\n{note}\n\n{page}"
        where = {"torch": version("torch")}
        found = {"figures": figures, "prime_rl": resumed}
        record("verify_schedule", found, text, where)
    return any(figure["rates"] != figure["equal"] for figure in figures)


def alone(name: str, place: str) -> dict[str, Any]:
    """Compare one trainer in a process of its own, because versions share a name."""
    command = [sys.executable, "-m", "benchmarks.verify.schedule", "--one", name, place]
    done = subprocess.run(  # noqa: S603 - the command is ours
        command, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(name: str, place: str) -> dict[str, Any]:
    """Return how many schedules and rates were compared, and how many were equal."""
    sys.path.insert(0, place)
    known = trainer(name)
    plain = known.name
    real = REAL[plain]
    schedules = rates = equal = 0
    for values in combinations(known, plain):
        ours = known.phases.learning_rates(values)
        theirs = real(values, TOTAL)
        schedules += 1
        rates += len(theirs)
        equal += sum(ours(step) == rate for step, rate in enumerate(theirs, 1))
    return {"trainer": name, "schedules": schedules, "rates": rates, "equal": equal}


def combinations(known: Any, plain: str) -> Iterator[dict[str, Any]]:
    """Yield the values of each config, with the names of the trainer's version."""
    base = known.load({}).values
    names = {
        n: n if n in base else n.replace("min_lr_factor", "lr_min")
        for n in VALUES[plain]
    }
    lists = {names[n]: v for n, v in VALUES[plain].items() if names[n] in base}
    steps = known.key_of("max_steps")
    for chosen in product(*lists.values()):
        values = dict(zip(lists, chosen, strict=True))
        yield {**base, **values, steps: TOTAL, "optimizer.lr": PEAK}


def of_kempnerforge(values: dict[str, Any], total: int) -> list[float]:
    """The rates of KempnerForge's own scheduler (training/scheduler.py)."""
    config = section(values, "scheduler")
    build = importlib.import_module("kempnerforge.training.scheduler").build_scheduler
    return stepped(lambda optimizer: build(optimizer, config, total), total)


def of_torchtitan(values: dict[str, Any], total: int) -> list[float]:
    """The rates of torchtitan's own scheduler (components/lr_scheduler.py)."""
    config = section(values, "lr_scheduler")
    module = importlib.import_module("torchtitan.components.lr_scheduler")
    build = module.build_lr_schedulers
    if build.__code__.co_argcount == 2:  # 0.1.0
        whole = SimpleNamespace(
            lr_scheduler=config, training=SimpleNamespace(steps=total)
        )
        return stepped(lambda optimizer: build([optimizer], whole), total)
    return stepped(lambda optimizer: build([optimizer], config, total), total)


def of_prime_rl(checkout: Path) -> list[dict[str, Any]]:
    """What prime-rl's schedules become over a resume (src/prime_rl/trainer).

    A scheduler for 20 steps ends and is saved; one for 50 steps loads that state, as
    ``AppState.load_state_dict`` does in ckpt.py.
    """
    for name in ("configs.trainer", "trainer.optim"):
        stand_in: Any = ModuleType(f"prime_rl.{name}")
        stand_in.SchedulerConfig = stand_in.OptimizerLike = object
        stand_in.OffloadOptimizer = type("OffloadOptimizer", (), {})
        sys.modules[stand_in.__name__] = stand_in
    path = checkout / "src" / "prime_rl" / "trainer" / "scheduler.py"
    names: dict[str, Any] = {"__name__": "scheduler"}
    exec(compile(path.read_text(), str(path), "exec"), names)  # noqa: S102
    torch: Any = importlib.import_module("torch")
    found = []
    for kind, options in (
        ("constant", {}),
        ("linear", {"warmup_steps": 5, "decay_steps": 10, "min_lr": 0.0}),
        ("cosine", {"warmup_steps": 5, "min_lr": 0.0}),
    ):
        config = SimpleNamespace(type=kind, **options)

        def begun(total: int, config: Any = config) -> tuple[Any, Any]:
            weights = [torch.zeros(1, requires_grad=True)]
            optimizer = torch.optim.SGD(weights, lr=PEAK)
            return optimizer, names["setup_scheduler"](optimizer, config, total, PEAK)

        rates = {}
        for name, end in (("unbroken", TOTAL), ("resumed", 20)):
            optimizer, scheduler = begun(end)
            steps = walked(optimizer, scheduler, end)
            if end < TOTAL:
                state, groups = scheduler.state_dict(), optimizer.state_dict()
                optimizer, scheduler = begun(TOTAL)
                optimizer.load_state_dict(groups)
                scheduler.load_state_dict(state)
                steps += walked(optimizer, scheduler, TOTAL - end)
            rates[name] = steps
        pairs = zip(rates["unbroken"], rates["resumed"], strict=True)
        first = next((n for n, (a, b) in enumerate(pairs, 1) if a != b), 0)
        at = (first or TOTAL) - 1
        found.append(
            {
                "schedule": kind,
                "first different step": first or "none",
                "unbroken": f"{rates['unbroken'][at]:.3g}",
                "in phases": f"{rates['resumed'][at]:.3g}",
            }
        )
    return found


REAL: dict[str, Callable[[dict[str, Any], int], list[float]]] = {
    "kempnerforge": of_kempnerforge,
    "torchtitan": of_torchtitan,
}


def section(values: dict[str, Any], name: str) -> SimpleNamespace:
    """One section of a config as the trainer's own class would hold it."""
    found = {
        k.partition(".")[2]: v for k, v in values.items() if k.startswith(f"{name}.")
    }
    return SimpleNamespace(**found)


def stepped(build: Callable[[Any], Any], total: int) -> list[float]:
    """The rate of every optimizer step of a run."""
    torch: Any = importlib.import_module("torch")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=PEAK)
    return walked(optimizer, build(optimizer), total)


def walked(optimizer: Any, scheduler: Any, total: int) -> list[float]:
    """The rates of the next optimizer steps."""
    rates = []
    for _ in range(total):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


if __name__ == "__main__":
    sys.exit(main())
