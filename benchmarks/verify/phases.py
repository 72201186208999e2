"""Run the phases that ``fp8tune phases`` writes, with the real trainers on the CPU.

``python -m benchmarks.verify.phases --kempnerforge CHECKOUT --torchtitan FOLDER`` needs
a Python with both trainers' requirements; FOLDER has the unpacked wheels, by version.

With ``--record`` the results of cases that are not run stay.

Each case trains a tiny model: the unbroken run in bf16, then the written script. Every
optimizer step leaves checksums (``on_cpu.py``). With the middle phase in bf16 too, all
of them must equal those of the unbroken run, bit for bit; also after an interruption.
With FP8 between, learning rates and tokens must, and each phase must begin with the
weights and the optimizer's state with which the one before it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.machine import table
from benchmarks.paths import RESULTS, ROOT, python_path
from benchmarks.search.recording import record
from benchmarks.verify.phase_cases import Case, data, kempnerforge, torchtitan
from fp8tune.trainers.trainer import trainer

Steps = list[dict[str, Any]]
ASYNC = 'async_mode = "async"'
TOTAL, FIRST, LAST = 8, 2, 3
"""Steps of the whole run, of the bf16 warm-up, and of the bf16 cool-down."""
EXACT = ("lr", "tokens", "gradients", "before", "after")


def main() -> int:
    """Run the cases and print what was equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kempnerforge", type=Path)
    parser.add_argument("--torchtitan", type=Path)
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args()
    cases: list[Case] = []
    if options.kempnerforge:
        cases += kempnerforge(options.kempnerforge.resolve())
    if options.torchtitan:
        cases += torchtitan(options.torchtitan.resolve())
    figures, refusals = [], []
    for case in cases:
        if options.only not in case.name:
            continue
        print(case.name, file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            data(Path(folder))
            figures += [{"case": case.name, **f} for f in measured(case, folder)]
            if case.refused:
                refusals += [{"case": case.name, **f} for f in refused(case, folder)]
    if options.record:
        figures, refusals = with_earlier(figures, refusals)
    page = shown(figures)
    if refusals:
        page += f"\n\nWhat `fp8tune phases` refuses or avoids:\n\n{shown(refusals)}"
    print(page)
    if options.record:
        where = {n: version(n) for n in ("torch", "torchao")}
        where |= {"python": platform.python_version(), "device": "cpu"}
        note = "Written by `python -m benchmarks.verify.phases`; see its docstring."
        text = f"# Phases with the real trainers\n\n{note}\n\n{page}"
        found = {"phases": figures, "refused": refusals}
        record("verify_phases", found, text, where)
    return 0


def with_earlier(*new: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The figures, after the recorded ones of cases that were not run this time."""
    path = RESULTS / "verify_phases.json"
    old = json.loads(path.read_text()) if path.exists() else {}
    ran = {figure["case"] for figure in new[0]}
    return [
        sorted(
            [f for f in old.get(name, []) if f["case"] not in ran] + figures,
            key=lambda figure: str(figure["case"]),
        )
        for name, figures in zip(("phases", "refused"), new, strict=True)
    ]


def shown(figures: list[dict[str, Any]]) -> str:
    """The figures as a table."""
    rows = [
        tuple(", ".join(v) if isinstance(v, list) else str(v) for v in f.values())
        for f in figures
    ]
    return table(rows, tuple(figures[0])) if rows else ""


def measured(case: Case, folder: str) -> Iterator[dict[str, Any]]:
    """Yield what of the phases equals the unbroken run, for three kinds of them."""
    place = Path(folder)
    whole = place / "whole.toml"
    whole.write_text(filled(case, place, "bf16", "whole"))
    unbroken = run(case, place, launched(case, program(case, str(whole))), "whole")
    ours = trainer(case.trainer).phases.learning_rates(
        trainer(case.trainer).load(tomllib.loads(whole.read_text())).values
    )
    assert [step["lr"][0] for step in unbroken] == [
        ours(step) for step in range(1, TOTAL + 1)
    ]
    for name, middle, stop in (
        ("bf16, bf16, bf16", "bf16", ""),
        ("bf16, bf16, bf16, interrupted", "bf16", f"{case.stop}:4"),
        ("bf16, fp8, bf16", "fp8", ""),
    ):
        kind = re.sub(r"\W+", "-", name)
        config = place / f"{kind}.toml"
        config.write_text(filled(case, place, "fp8", kind))
        script = phases(case, config)
        if middle == "bf16":
            path = place / f"{kind}.2-fp8.toml"
            path.write_text(in_bf16(case, path.read_text()))
        command = ["bash", str(script)]
        if stop:
            early = run(case, place, command, f"{kind}-0", stop=stop, fails=True)
        steps = run(case, place, command, kind)
        again = run(case, place, command, f"{kind}-again")
        assert not again, "a run that ended trains again"
        if stop:
            done = TOTAL - len(steps)
            steps = early[:done] + steps
        yield {
            "phases": name,
            "steps": len(steps),
            "equal": [n for n in EXACT if column(steps, n) == column(unbroken, n)],
            "joined": all(
                steps[at]["before"] == steps[at - 1]["after"]
                for at in (FIRST, TOTAL - LAST)
            ),
        }


REFUSED = {
    "kempnerforge": (
        ("FP8, then bf16, torchao not imported", "fp8", "bf16", ""),
        ("FP8, async checkpoint, then FP8", "fp8", "fp8", ASYNC),
        ("tied embeddings: bf16, then FP8", "bf16", "fp8", "tie_embeddings = true"),
    ),
    "torchtitan": (
        ("FP8 all-gather, then bf16, torchao not imported", "fp8", "bf16", ""),
        ("FP8 all-gather, async checkpoint, then FP8", "fp8", "fp8", ASYNC),
    ),
}
"""What ``fp8tune phases`` refuses or avoids: two runs, and a key that both have."""


def refused(case: Case, folder: str) -> Iterator[dict[str, Any]]:
    """Yield what happens in two runs of which the second continues the first."""
    place, name = Path(folder), trainer(case.trainer).name
    for number, (what, first, second, key) in enumerate(REFUSED[name]):
        kind, runs = f"refused-{number}", []
        for precision, steps in ((first, 3), (second, 5)):
            text = filled(case, place, precision, kind)
            text = re.sub(rf"(steps = ){TOTAL}\b", rf"\g<1>{steps}", text)
            table = "[model]" if key.startswith("tie") else "[checkpoint]"
            text = text.replace(table, f"{table}\n{key}")
            if name == "torchtitan":  # its last checkpoint alone is not async
                text = text.replace("interval = 3", "interval = 2")
            config = place / f"{kind}-{steps}.toml"
            config.write_text(text)
            command = launched(case, program(case, str(config)))
            runs.append(started(case, place, command, f"{kind}-{steps}"))
            # torchtitan's last checkpoint is the model's alone
            last = place / f"{kind}-checkpoints" / "checkpoint" / "step-3"
            shutil.rmtree(last, ignore_errors=True)
        (_, before), (done, after) = runs
        said = re.findall(r"(?:UnpicklingError|RuntimeError): [^.\n]*", done.stderr)
        at = 1 if name == "torchtitan" else 2
        goes_on = bool(after) and after[0]["before"] == before[at]["after"]
        yield {
            "what": what,
            "exit": done.returncode,
            "error": said[-1] if said else "",
            "steps": len(after),
            "weights": ("no step" if not after else "saved" if goes_on else "others"),
        }


def column(steps: Steps, name: str) -> list[Any]:
    """One quantity of all steps."""
    return [step[name] for step in steps]


def filled(case: Case, place: Path, precision: str, checkpoints: str) -> str:
    """The config's text, with checkpoints in a folder of their own."""
    text = case.text
    words = {
        "total": str(TOTAL),
        "folder": str(place),
        "checkpoints": f"{place}/{checkpoints}-checkpoints",
        **case.words[precision],
    }
    for name, value in words.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def in_bf16(case: Case, text: str) -> str:
    """The config of the FP8 phase, in bf16."""
    for name, value in case.words["fp8"].items():
        quote = '"' * (name == "precision")
        text = text.replace(
            f"{quote}{value}{quote}", quote + case.words["bf16"][name] + quote
        )
    return text


def program(case: Case, config: str) -> list[str]:
    """The trainer's program, as it stands behind a launcher."""
    if case.trainer == "kempnerforge":
        return ["scripts/train.py", config]
    return ["-m", "torchtitan.train", "--job.config_file", config]


def launched(case: Case, words: list[str]) -> list[str]:
    """The program behind the launcher that stands for ``torchrun``."""
    ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    start = [sys.executable]
    if case.ranks > 1:
        start += [*ranks, str(case.ranks)]
    here = str(Path(__file__).with_name("on_cpu.py"))
    return [*start, here, *words]


def phases(case: Case, config: Path) -> Path:
    """Write the phases and return the path of the script."""
    command = [sys.executable, "-m", "fp8tune", "phases", str(config)]
    command += ["--bf16-warmup", str(FIRST), "--bf16-cooldown", str(LAST)]
    command += ["--trainer", case.trainer, "--launcher", shlex.join(launched(case, []))]
    env = {**os.environ, "PYTHONPATH": python_path(ROOT)}
    done = subprocess.run(  # noqa: S603 - the command is ours
        command, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return config.with_suffix(".phases.sh")


def run(
    case: Case,
    place: Path,
    command: list[str],
    name: str,
    *,
    stop: str = "",
    fails: bool = False,
) -> Steps:
    """Run a command in the trainer's folder and return the steps of rank 0."""
    done, steps = started(case, place, command, name, stop)
    if bool(done.returncode) != fails:
        said = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        raise RuntimeError(f"{command}: {done.returncode}\n{said}")
    return steps


def started(
    case: Case, place: Path, command: list[str], name: str, stop: str = ""
) -> tuple[subprocess.CompletedProcess[str], Steps]:
    """Run a command in the trainer's folder, whatever comes of it."""
    lines = place / f"{name}.jsonl"
    env = {
        **os.environ,
        "PYTHONPATH": python_path(ROOT, case.place),
        "OMP_NUM_THREADS": "1",
        "MASTER_PORT": str(random.randint(20000, 40000)),  # noqa: S311
        "HF_HOME": str(place / "hub"),
        "FP8TUNE_RECORD": str(lines),
        "FP8TUNE_SIGNAL": stop,
    }
    done = subprocess.run(  # noqa: S603 - the command is ours
        command,
        cwd=case.place if case.trainer == "kempnerforge" else place,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    text = lines.read_text() if lines.exists() else ""
    return done, [json.loads(line) for line in text.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
