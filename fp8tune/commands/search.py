"""``fp8tune search``: short real trials in a time budget; writes the best config."""

from __future__ import annotations

import os
from typing import Any, TextIO

import click

from fp8tune import completion
from fp8tune.cli import (
    Choice,
    Failure,
    WithOverrides,
    need,
    studies_option,
    text_or_json,
    trainer_option,
    with_option,
    world_size_option,
)
from fp8tune.extras import SEARCH, TRIALS

OWN = ("auto", "builtin")
"""Runners that may run fp8tune's own model."""
DRY_BUDGET = "2h"
"""The budget of a dry run for which none is named."""


@click.command("search", cls=WithOverrides, short_help="Search for a faster setting.")
@click.argument("config", required=False, default="", metavar="[CONFIG]")
@click.option(
    "--budget",
    default="",
    metavar="TIME",
    help="Wall time for everything, e.g. 90s, 30m, 2h.  [default: inside a job of "
    "Slurm, what is left of it]",
)
@click.option(
    "--gpu",
    default="",
    metavar="NAME",
    shell_complete=completion.gpus,
    help="GPU that the run is for, if it has more memory than this one, e.g. h200.",
)
@world_size_option
@trainer_option
@with_option
@click.option(
    "--runner",
    type=Choice(["auto", "builtin", "trainer", "command", "replay"]),
    default="auto",
    show_default=True,
    help="What runs trials here: fp8tune's own model (builtin), the trainer itself, or "
    "the command of your --trainer file. auto: builtin if it covers the config, else "
    "the trainer. replay reads them from --records.",
)
@click.option(
    "--trainer-dir",
    default="",
    metavar="PATH",
    help="Checkout of the trainer, for --runner trainer and command.",
)
@click.option(
    "--python",
    default="",
    metavar="PATH",
    help="Python that has the trainer, for --runner trainer and command.  [default: "
    ".venv/bin/python of its checkout, else the one that runs fp8tune]",
)
@click.option(
    "--device",
    type=Choice(["cuda", "cpu"]),
    default="cuda",
    show_default=True,
    help="Where trials run; cpu is a rehearsal of a small model.",
)
@click.option(
    "--records",
    default="",
    metavar="FILE",
    help="Recorded trials for --runner replay, e.g. trials.jsonl.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="KNOB",
    help="Also vary fp8, precision, kernels, sharding, parallel, warmup or one knob "
    "by name; --dry-run lists them. In a replay any knob of its records. Repeatable.",
)
@click.option(
    "--allow-versions",
    is_flag=True,
    help="Search with package versions with which FP8 is known to fail; `fp8tune "
    "doctor` names them.",
)
@click.option(
    "--objective",
    type=Choice(["tokens-per-second", "tokens-per-joule"]),
    default="tokens-per-second",
    show_default=True,
    help="What is maximised. tokens-per-joule needs a GPU that reports its watts.",
)
@click.option(
    "--sampler",
    type=Choice(["auto", "tpe", "gp", "random"]),
    default="auto",
    show_default=True,
    help="What proposes settings: fp8tune's own sampler (auto) or one of Optuna's. "
    "gp needs SciPy.",
)
@click.option(
    "--output",
    default="",
    metavar="FILE",
    help="Where the tuned config goes.  [default: beside CONFIG, as train.tuned.yaml "
    "for train.yaml]",
)
@click.option("--in-place", is_flag=True, help="Write into CONFIG itself.")
@click.option("--diff", is_flag=True, help="Print the changes; write no config.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print what would be varied, what is kept and why, a trial's command, and "
    "what to expect; run nothing. Needs no GPU and no torch. Exit code 2 if the search "
    "would not start.",
)
@studies_option
@click.option(
    "--storage",
    default="",
    envvar="FP8TUNE_STORAGE",
    show_envvar=True,
    metavar="URL",
    help="Where the study is stored: sqlite:///x.db, postgresql://..., or the path of "
    "a journal.  [default: study.journal in the study's folder]",
)
@click.option(
    "--workers",
    type=click.IntRange(0),
    default=None,
    metavar="N",
    help="Run trials at the same time in N processes, one for each GPU of this machine "
    "or Slurm job. 0: wait for others, here or elsewhere, that join with --study.",
)
@click.option(
    "--gpus",
    default="",
    metavar="LIST",
    help="GPUs for workers, as in CUDA_VISIBLE_DEVICES, e.g. 0,1,2,3. all: those of "
    "this machine, or of all nodes of the Slurm job.",
)
@click.option(
    "--ranks",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Run each trial on N GPUs, as many as the run has. With 1, a trial is rank 0 "
    "of the run, and its communication is predicted.",
)
@click.option(
    "--slurm",
    default="",
    metavar="OPTIONS",
    help="Start the --workers as jobs of Slurm, with these options of sbatch, e.g. "
    "partition=gpu,gpus=1,time=30m.",
)
@click.option(
    "--study",
    default="",
    metavar="NAME",
    shell_complete=completion.studies,
    help="Join the search of this study: run trials of it in this process too. The "
    "command that began it writes the answer.",
)
@click.option(
    "--heartbeat",
    default="10s",
    show_default=True,
    metavar="TIME",
    help="How often a process shows that it lives; one that misses six is lost.",
)
@click.option(
    "--export",
    default="",
    metavar="FILE",
    help="Also write the trials as JSON lines, e.g. trials.jsonl.",
)
@text_or_json
def command(config: str, output_format: str, **asked: Any) -> int:
    """Search for a faster setting of CONFIG and write it beside CONFIG.

    CONFIG is a config in any format, or a launch script whose flags are the config or
    name it. Each file of the job that changes is written beside its own.

    A search varies micro-batch, activation checkpointing (AC) and compile; gradient
    accumulation keeps the tokens of a step. Without CONFIG it takes the only train
    config below this folder. The same command continues a search that was stopped.

    Exit code 0: another setting was chosen, even if its verdict is inconclusive, or
    yours is the best. 1: no trial succeeded, or yours stays because none is clearly
    faster. 2: the search could not start. 130: interrupted; the study is kept, and the
    best setting so far is written.

    \b
    Examples:
      fp8tune search train.toml --budget 2h
      fp8tune search train.toml --budget 2h --allow precision
      fp8tune search train.toml --budget 2h -- --train.seq_len=8192
      fp8tune search train.toml --budget 2h --runner trainer --trainer-dir KempnerForge
      fp8tune search train.toml --budget 2h --gpus all
      fp8tune search train.toml --budget 2h --workers 8 --slurm partition=gpu,gpus=1
      fp8tune search train.toml --budget 2h --study train-1a2b3c4d
      fp8tune search configs/rehearsal_cpu.toml --device cpu --budget 4m
    """
    from fp8tune.config.settings import BadSettings
    from fp8tune.search import CannotSearch, load_numpy
    from fp8tune.search.options import NO_WORKERS, SearchOptions, find_config

    try:
        config = config or find_config()
        with open(config, "rb"):
            pass
    except (CannotSearch, BadSettings) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{config}: {error.strerror}") from None
    _check(asked)
    if asked["runner"] == "auto" and (asked["trainer_dir"] or asked["python"]):
        asked["runner"] = "trainer"
    if asked["dry_run"]:
        return _dry_run(config, asked, as_json=output_format == "json")
    need("search", *SEARCH, *(TRIALS if asked["runner"] in OWN else ()))
    load_numpy()
    from fp8tune.search.session import search
    from fp8tune.search.slurm import budget_of_job, parse

    asked["world_size"] = asked["world_size"] or 0
    asked["workers"] = NO_WORKERS if asked["workers"] is None else asked["workers"]
    asked["as_json"] = output_format == "json"
    try:
        if asked["slurm"]:
            parse(asked["slurm"])  # before anything is stored
        asked["budget"] = asked["budget"] or budget_of_job(os.environ)
        return search(SearchOptions(config=config, **asked), _write_report)
    except CannotSearch as error:
        raise Failure(str(error)) from None


def _dry_run(config: str, asked: dict[str, Any], *, as_json: bool) -> int:
    """Print what a search would do."""
    from fp8tune.search import CannotSearch
    from fp8tune.search.dry_run import dry_run
    from fp8tune.search.options import NO_WORKERS, SearchOptions

    asked["budget"] = asked["budget"] or DRY_BUDGET
    asked["world_size"] = asked["world_size"] or 0
    asked["workers"] = NO_WORKERS
    options = SearchOptions(config=config, **asked, as_json=as_json)
    try:
        return dry_run(options)
    except CannotSearch as error:
        raise Failure(str(error)) from None


def _check(asked: dict[str, Any]) -> None:
    """Raise ``Failure`` for options that do not go together."""
    if asked["in_place"] and asked["output"]:
        raise Failure("--in-place and --output cannot be combined")
    launches = asked["runner"] in ("auto", "trainer", "command")
    if asked["trainer_dir"] and not launches:
        raise Failure("--trainer-dir needs --runner trainer or command")
    if asked["python"] and not launches:
        raise Failure("--python needs --runner trainer or command")
    if asked["records"] and asked["runner"] != "replay":
        raise Failure("--records needs --runner replay")
    if asked["ranks"] > 1 and asked["runner"] not in OWN:
        raise Failure("--ranks needs --runner builtin; a trainer runs on all its GPUs")
    if asked["slurm"] and asked["workers"] == 0:
        raise Failure("--slurm starts workers: give --workers 1 or more")
    if asked["gpus"] and asked["device"] == "cpu":
        raise Failure("--gpus needs --device cuda; on a CPU give --workers 2")
    if asked["slurm"] and asked["gpus"]:
        raise Failure("--gpus is for workers of this machine; --slurm has gpus=N")
    starts = asked["slurm"] or asked["gpus"] or asked["workers"] is not None
    if asked["study"] and (starts or asked["runner"] == "replay"):
        raise Failure("--study joins a search with this process alone")


def _write_report(folder: str, out: TextIO, url: str) -> None:
    """Write the report of a study; the plotting packages are imported only here."""
    from fp8tune.report.html import write_at_end

    write_at_end(folder, out, url)
