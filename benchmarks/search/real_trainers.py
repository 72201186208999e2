"""Run trials and a search with the real trainers, on the CPU or on GPUs.

``python -m benchmarks.search.real_trainers --kempnerforge CHECKOUT --torchtitan SITES``
where SITES has a folder with the unpacked wheel of each release, and ``--python`` is
one with torchtitan's requirements. ``--accelerate PYTHON``, ``--automodel PYTHON``,
``--axolotl PYTHON`` and ``--llamafactory PYTHON`` name a Python that has the trainer;
that of Accelerate has TRL too. ``--record`` writes the results; those of Accelerate and
of NeMo Automodel are run alone, and in a file of their own.

On the CPU KempnerForge, torchtitan and NeMo Automodel are behind
``benchmarks/verify/on_cpu.py``, which gives the CPU to the calls that insist on CUDA;
the others run as they are. Those that read YAML get the model and data of
``benchmarks/hugging_face/tiny.py``. Speeds say nothing about a GPU then;
what counts is that every trial gets the outcome that it had. ``--device cuda`` runs
all as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.hugging_face.tiny import CONFIGS
from benchmarks.machine import table
from benchmarks.paths import ROOT, python_path
from benchmarks.rows import Rows, end_by_sigterm
from benchmarks.search.recording import record
from benchmarks.verify.phase_cases import KEMPNERFORGE, TORCHTITAN, data
from fp8tune.config.reader import config_of
from fp8tune.job import Target
from fp8tune.runners.driver import current
from fp8tune.runners.sampling import Sampling
from fp8tune.runners.trainer.config import UserConfig
from fp8tune.runners.trainer.launch import Launch, find_launch, releases_in
from fp8tune.runners.trainer.recipe import Command, Keys
from fp8tune.runners.trainer.runner import TrainerRunner, trainer_runner
from fp8tune.runners.watch import Guard
from fp8tune.search.options import SearchOptions, tuned
from fp8tune.search.overrides import config_asked
from fp8tune.search.real_trials import read_as_installed, real_trials, this_machine
from fp8tune.trainers.trainer import trainer
from fp8tune.trials.record import LossRun, Record
from fp8tune.trials.runner import TrialLimits

ON_CPU = str(ROOT / "benchmarks" / "verify" / "on_cpu.py")
FEW = Sampling(min_steps=4, max_steps=8, warm_steps=1)
LOSSES = LossRun(seed=7, warmup_steps=2, steps=12, config_warmup_steps=3)
LIMIT_S = 240.0
BUDGET, BUDGET_YAML = "4m", "8m"
INSIST = ("kempnerforge", "torchtitan", "automodel")
"""Trainers that insist on CUDA."""
TITLES = {
    "accelerate": "Accelerate, TRL and a script of one's own",
    "automodel": "the real NeMo Automodel",
}
"""Titles of the pages of trainers that are run alone."""
SLOW = {"automodel": (("local_batch_size: 2", "local_batch_size: 1"),)}
"""What makes a config slow, for a search to find something."""
FP8 = {
    "accelerate": (
        (
            "mixed_precision: bf16",
            "mixed_precision: fp8\nfp8_config: {backend: AO, "
            "enable_fsdp_float8_all_gather: false}",
        ),
        ("bf16: true", "bf16: false"),
    ),
    "automodel": (
        ("seq_length: 256", "seq_length: 32"),  # its FP8 GEMMs take seconds on a CPU
        ("recipe:", "fp8:\n  enabled: true\nrecipe:"),
    ),
    "axolotl": (("output_dir:", "fp8: true\noutput_dir:"),),
    "llamafactory": (("output_dir:", "fp8: true\noutput_dir:"),),
}
"""How the files of a job ask for FP8, as texts and their replacements."""
SCRIPT, TRAINS = "train.sbatch", "trains.py"
OWN = {
    SCRIPT: f"accelerate launch --config_file launch.yaml {TRAINS} --config sft.yaml "
    "--per_device_train_batch_size 4 --run_name numbers-$SLURM_JOB_ID\n",
    TRAINS: "from trl.scripts.sft import main, make_parser\n"
    "main(*make_parser().parse_args_and_config())\n",
}
"""A launch script, and a script of the user's own that it starts."""


class Case(NamedTuple):
    """A trainer with a config, on so many ranks of a device.

    ``files`` are those of a job that is YAML, the one that leads it first.
    """

    name: str
    trainer: str
    place: Path
    text: str
    ranks: int
    device: str
    python: str = ""
    files: dict[str, str] = {}

    def changed(self, *pairs: tuple[str, str]) -> Case:
        """Return the case with other texts in its files."""
        files = dict(self.files)
        for before, after in pairs:
            files = {name: text.replace(before, after) for name, text in files.items()}
        return self._replace(files=files)


def _options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kempnerforge", type=Path)
    parser.add_argument("--torchtitan", type=Path)
    parser.add_argument("--python", default=sys.executable)
    for name in CONFIGS:
        parser.add_argument(f"--{name}", default="", metavar="PYTHON")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--record", action="store_true", help="write the results")
    parser.add_argument(
        "--output",
        type=Path,
        help="add each trial to this file (JSON lines); cases that it has are not run",
    )
    return parser.parse_args()


def main() -> int:
    """Run the cases and print what came of each trial."""
    options = _options()
    os.environ["OMP_NUM_THREADS"] = "1"
    where = {n: version(n) for n in ("torch", "torchao")}
    where |= {"python": platform.python_version(), "device": options.device}
    output = options.output and options.output.resolve()  # a case changes the folder
    end_by_sigterm()
    kept = Rows(output, where)
    rows: list[dict[str, Any]] = []
    made = list(cases(options))  # before one changes the folder
    for case in made:
        if options.only in case.name:
            rows += measured(case, kept)
    searched = searches(options, made, kept)
    shown = [tuple(map(str, row.values())) for row in rows]
    page = table(shown, tuple(rows[0])) if rows else ""
    for title, said in searched.items():
        page += f"\n\nA search with {title}:\n\n```\n{said}```"
    print(page)
    print(f"failed: {', '.join(kept.failed) or 'nothing'}")
    if options.record and not kept.failed:
        note = f"Written by `python -m {__spec__.name}`; see its docstring."
        others = options.kempnerforge or options.torchtitan
        alone = next((name for name in TITLES if getattr(options, name)), "yaml")
        kind = "" if others else f"_{alone}"
        title = TITLES.get(alone, "real trainers that read YAML")
        title = "the real trainers" if others else title
        text = f"# Trials with {title}\n\n{note}\n\n{page}"
        kind += "_gpu" * (options.device == "cuda")
        record(
            f"real_trainers{kind}", {"trials": rows, "search": searched}, text, where
        )
    return int(bool(kept.failed))


def searches(
    options: argparse.Namespace, made: list[Case], kept: Rows
) -> dict[str, str]:
    """Return what searches print, by trainer."""
    found = {}
    if options.kempnerforge and options.only in "search":
        place = options.kempnerforge.resolve()
        row = kept.run("search", lambda: {"says": search(place, options.device)})
        found["KempnerForge"] = row.get("says", "")
    for case in made:
        name = f"{case.name}: search"
        if case.trainer in CONFIGS and case.ranks == 1 and options.only in name:
            row = kept.run(name, partial(search_yaml, case))
            found[case.name] = row.get("says", "")
    return found


def measured(case: Case, kept: Rows) -> list[dict[str, Any]]:
    """Return the rows of a case; each is kept when its trial ends."""
    whole = f"{case.name}: all trials"
    if kept.measured(whole):
        return list(kept.by_name[whole]["rows"])
    rows: list[dict[str, Any]] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = of_yaml if case.trainer in CONFIGS else trials
            rows.extend(
                kept.add(f"{case.name}: {row['trial']}", row)
                for row in run(case, Path(folder))
            )
        kept.add(whole, {"rows": rows})
    except Exception as error:
        kept.fail(whole, error)
    return rows


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the trainers, by versions and ranks."""
    device = options.device
    if options.kempnerforge:
        place = options.kempnerforge.resolve()
        text = kempnerforge(device)
        for ranks in (1, 2):
            name = f"KempnerForge, {ranks} rank{'s' * (ranks > 1)}"
            yield Case(name, "kempnerforge", place, text, ranks, device)
        empty = text.replace('dataset_path = "{folder}/tokens"', "")
        yield Case("KempnerForge, no data", "kempnerforge", place, empty, 1, device)
    folder = options.torchtitan
    for place in sorted(folder.resolve().glob("0.*")) if folder else ():
        for ranks in (1, 2) if place.name == "0.2.2" else (1,):
            name = f"torchtitan {place.name}, {ranks} rank{'s' * (ranks > 1)}"
            named = f"torchtitan=={place.name}"
            text = torchtitan(place.name)
            yield Case(name, named, place, text, ranks, device, options.python)
    for name, files in CONFIGS.items():
        python = getattr(options, name)
        for ranks in (1, 2) if python else ():
            python = os.path.abspath(python)
            about = trainer(name).about
            package = about.distribution or name
            release = releases_in(python, "", [package])[package]
            title = f"{about.title} {release}, {ranks} rank{'s' * (ranks > 1)}"
            case = Case(title, name, Path(), "", ranks, device, python, files)
            yield case.changed(('"NO"', "MULTI_GPU")) if ranks > 1 else case


def kempnerforge(device: str) -> str:
    """Return a config of KempnerForge; the folders of its data are open."""
    text = KEMPNERFORGE.replace("{schedule}", 'name = "cosine"\nwarmup_steps = 3')
    text = text.replace("{data}", 'dataset_path = "{folder}/tokens"')
    text = text.replace("{checkpoints}", "{folder}/kept").replace("{total}", "5000")
    text = text.replace("{precision}", "fp8").replace("interval = 3", "interval = 500")
    return text if device == "cpu" else text.replace('backend = "gloo"', "")


def torchtitan(release: str) -> str:
    """Return a config of a release of torchtitan."""
    old = release == "0.1.0"
    float8 = "float8" if old else "quantize.linear.float8"
    tokens = '{key} = "{folder}/{name}"'
    key = ("tokenizer_path", "bpe") if old else ("hf_assets_path", "words")
    tokens = tokens.replace("{key}", key[0]).replace("{name}", key[1])
    words = {
        "{tokenizer}": tokens,
        "{converters}": json.dumps([float8]),
        "{schedule}": "warmup_steps = 2",
        "{enable}": "enable_checkpoint" if old else "enable",
        "{seed}": "debug" if release >= "0.2.1" else "training",
        "{float8}": float8,
        "{gathers}": "false",
        "{checkpoints}": "{folder}/kept",
        "{total}": "5000",
    }
    text = TORCHTITAN
    if words["{seed}"] == "training":
        text = text.replace("[{seed}]\nseed = 1\n", "")
        text = text.replace("seq_len = 64", "seq_len = 64\nseed = 1")
    for name, value in words.items():
        text = text.replace(name, value)
    return text


def on_cpu(launch: Launch) -> Launch:
    """Return the launch with the program that stands for CUDA before the trainer's."""

    def behind(words: Command) -> Command:
        at = words.index("{ranks}") + 1 if "{ranks}" in words else 1
        return (*words[:at], ON_CPU, *words[at:])

    recipe = launch.recipe
    path = python_path(ROOT, Path(launch.folder))
    more = {**recipe.environment, "PYTHONPATH": path}
    recipe = recipe._replace(
        command=behind(recipe.command),
        ranks=behind(recipe.ranks),
        environment=more,
        cpu=Keys(),
    )
    return launch._replace(recipe=recipe, device="cpu")


def runner_of(case: Case, folder: Path) -> TrainerRunner:
    """Return the runner of a case, whose data are in a folder."""
    known = trainer(case.trainer)
    device = case.device if case.device == "cuda" else ""  # not refused
    found = find_launch(
        known.about, str(case.place), case.ranks, device, own=False, python=case.python
    )
    found = found if device else on_cpu(found)
    guard = Guard(current()) if case.device == "cuda" else None
    text = case.text.replace("{folder}", str(folder))
    target = Target("", case.ranks)
    config = config_of("config.toml", text.encode(), target, only=known)
    missing, ours = config.job.find("data_missing") or "", UserConfig(config)
    made = trainer_runner(found, ours, device=case.device, data_missing=missing)
    return made.ready(FEW, str(folder), guard)


@contextlib.contextmanager
def launches(case: Case, *, stand_in: bool = True) -> Iterator[None]:
    """Let searches start a trainer that insists on CUDA on a CPU too.

    Without ``stand_in`` nothing answers its calls for CUDA.
    """
    from fp8tune.search import real_trials

    def find(about: Any, directory: str, ranks: int, _: str, **named: Any) -> Launch:
        found = find_launch(about, directory, ranks, "", **named)  # not refused
        return on_cpu(found) if stand_in else found._replace(device="cpu")

    insists = trainer(case.trainer).name in INSIST
    if case.device == "cpu" and insists:
        real_trials.find_launch = find  # type: ignore[attr-defined,assignment]
    try:
        yield
    finally:
        real_trials.find_launch = find_launch  # type: ignore[attr-defined]


def runner_of_files(
    case: Case, folder: Path, first: str = "", *, stand_in: bool = True
) -> TrainerRunner:
    """Return the runner of a job as a search makes it; ``first`` names it, if given."""
    for name, text in case.files.items():
        (folder / name).write_text(text.replace("{folder}", str(folder)))
    lead, *others = (first,) if first else case.files
    options = SearchOptions(
        lead,
        BUDGET,
        runner="trainer",
        python=case.python,
        device=case.device,
        world_size=case.ranks,
        beside=tuple(others),
    )
    with launches(case, stand_in=stand_in), read_as_installed(options):
        config = config_asked(options, "", "", world_size=1)
        own = real_trials(options, config, this_machine(case.device)).own
    assert own is not None
    guard = Guard(current()) if case.device == "cuda" else None
    return own.ready(FEW, str(folder), guard)


def of_yaml(case: Case, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each trial of a trainer that reads YAML."""
    made = [case.python, "-m", "benchmarks.hugging_face.tiny", str(folder)]
    subprocess.run(made, check=True, cwd=ROOT, capture_output=True)  # noqa: S603
    os.chdir(folder)
    (folder / "kept").mkdir()
    batch = trainer(case.trainer).key_of("micro_batch")
    limits, runner = TrialLimits(LIMIT_S), runner_of_files(case, folder)
    yield row(case, "as it is", runner.run({}, limits), folder)
    if case.ranks > 1:
        return
    yield row(case, f"{batch} = 1", runner.run({batch: 1}, limits), folder)
    yield row(case, "losses", runner.train_for_losses({}, LOSSES, LIMIT_S), folder)
    if case.device == "cpu" and case.trainer in INSIST:
        alone = runner_of_files(case, folder, stand_in=False).run({}, limits)
        yield row(case, "without a stand-in for CUDA", alone, folder)
    variants = {
        "in FP8": FP8[case.trainer],
        "a learning rate of 1e30": (("1.0e-3", "1.0e+30"),),
        "a model that is not here": (("{folder}/model", "no-such-user/no-such-model"),),
    }
    for what, pairs in variants.items():
        other = runner_of_files(case.changed(*pairs), folder)
        yield row(case, what, other.run({}, limits), folder)
    if case.trainer == "accelerate":
        own = case._replace(files={**case.files, **OWN})
        runner = runner_of_files(own, folder, SCRIPT)
        yield row(case, "its own script", runner.run({batch: 1}, limits), folder)


def trials(case: Case, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each trial of a case."""
    data(folder)
    os.chdir(case.place if case.trainer == "kempnerforge" else folder)
    (folder / "kept").mkdir(exist_ok=True)
    runner = runner_of(case, folder)
    known = runner.config.base.trainer
    names = {n: known.key_of(n) for n in ("micro_batch", "ac", "precision")}
    start = {names["micro_batch"]: 2, names["ac"]: "none"}
    fp8 = {**start, names["precision"]: "fp8"}
    small = {**fp8, names["micro_batch"]: 1, names["ac"]: "full"}
    counted = 0
    for what, knobs in (
        ("fp8", fp8),
        ("fp8, counted before", fp8),
        ("fp8, batch 1, full AC", small),
        ("bf16", {**start, names["precision"]: "bf16"}),
    ):
        limits = TrialLimits(LIMIT_S, matmuls=counted if "before" in what else 0)
        found = runner.run(knobs, limits)
        counted = found.float8_matmuls or counted
        yield row(case, what, found, folder)
    if runner.no_losses:
        yield {
            **row(case, "losses", Record({}, "launch"), folder),
            "says": runner.no_losses,
        }
        return
    found = runner.train_for_losses(fp8, LOSSES, LIMIT_S)
    yield row(case, "losses", found, folder)


def row(case: Case, what: str, found: Record, folder: Path) -> dict[str, Any]:
    """Return what came of a trial."""
    print(case.name, what, found.line()[:2000], file=sys.stderr, flush=True)
    left = [path.name for path in folder.glob("fp8tune-*")]
    kept = [path.name for path in (folder / "kept").rglob("*")]
    step = statistics.median(found.step_ms) if found.step_ms else 0.0
    says = found.message
    if found.losses:
        says = f"loss {found.losses[0]:.3f} to {found.losses[-1]:.3f}"
    elif found.synthetic_data:
        says = "synthetic data"
    return {
        "trainer": case.name,
        "trial": what,
        "outcome": found.outcome,
        "step [ms]": f"{step:.1f}",
        "time from": found.extra.get("time_from", ""),
        "FP8 matmuls": found.float8_matmuls or "",
        "seconds": f"{found.cost_s:.0f}",
        "files left": len(left) + len(kept),
        "says": says[:100],
    }


def searched(case: Case, options: SearchOptions) -> str:
    """Return what a search prints, of trainers that insist on CUDA too."""
    from fp8tune.search import session

    said = io.StringIO()
    with launches(case), contextlib.redirect_stdout(said):
        session.search(options, lambda *_: None)
    return said.getvalue()


def search(checkout: Path, device: str) -> str:
    """Search with KempnerForge; return what the command prints."""
    os.chdir(checkout)
    with tempfile.TemporaryDirectory() as folder:
        data(Path(folder))
        config = Path(folder) / "train.toml"
        text = kempnerforge(device).replace("{folder}", folder)
        text = text.replace("batch_size = 2", "batch_size = 1")
        text = text.replace("grad_accum_steps = 2", "grad_accum_steps = 4")
        text = text.replace(
            "[scheduler]", 'activation_checkpointing = "full"\n[scheduler]'
        )
        config.write_text(f"# fp8tune: world-size=1\n{text}")
        options = SearchOptions(
            str(config),
            BUDGET,
            runner="trainer",
            trainer_dir=str(checkout),
            device=device,
            studies=f"{folder}/studies",
        )
        case = Case("KempnerForge", "kempnerforge", checkout, text, 1, device)
        text = searched(case, options).replace(f"{folder}/", "")
        return text.replace(str(checkout), "CHECKOUT").replace(sys.executable, "PYTHON")


def search_yaml(case: Case) -> dict[str, Any]:
    """Search with a trainer that reads YAML, which then runs the tuned config."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        made = [case.python, "-m", "benchmarks.hugging_face.tiny", folder]
        subprocess.run(made, check=True, cwd=ROOT, capture_output=True)  # noqa: S603
        case = case.changed(*SLOW.get(case.trainer, ()))
        for name, text in case.files.items():
            (root / name).write_text(text.replace("{folder}", folder))
        lead, *others = case.files
        options = SearchOptions(
            lead,
            BUDGET_YAML,
            runner="trainer",
            python=case.python,
            device=case.device,
            world_size=1,
            beside=tuple(others),
        )
        os.chdir(root)
        said = searched(case, options)
        files = {Path(tuned(name)): name for name in case.files}
        tuned_files = {
            name: (path if path.exists() else root / name).read_text()
            for path, name in files.items()
        }
        runner = runner_of_files(case._replace(files=tuned_files), root)
        found = runner.run({}, TrialLimits(LIMIT_S))
        names = ", ".join(str(path) for path in files if path.exists())
        said += f"the trainer runs {names}: {found.outcome}\n"
        said = said.replace(f"{folder}/", "").replace(case.python, "PYTHON")
        return {"says": said}


if __name__ == "__main__":
    sys.exit(main())
