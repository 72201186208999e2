"""``fp8tune search``: short real trials in a wall budget, and the best written back."""

from __future__ import annotations

import sys
from typing import Any, TextIO

import click

from fp8tune.cli import Choice, Failure, text_or_json


@click.command("search")
@click.argument("config", required=False, default="", metavar="[CONFIG]")
@click.option("--budget", required=True, help="Wall time for everything: 90s, 30m, 2h.")
@click.option("--gpu", default="", help="GPU that the run is for, if not this one.")
@click.option("--world-size", type=click.IntRange(1, 10**7), help="GPUs of the run.")
@click.option("--trainer", default="", help="The config's trainer, if not recognised.")
@click.option(
    "--runner",
    type=Choice(["builtin", "replay"]),
    default="builtin",
    show_default=True,
    help="What executes the trials.",
)
@click.option(
    "--device",
    type=Choice(["cuda", "cpu"]),
    default="cuda",
    show_default=True,
    help="Where trials run; on a CPU they are a rehearsal.",
)
@click.option("--records", default="", metavar="FILE", help="Trials to replay.")
@click.option(
    "--allow", multiple=True, help="A frozen knob to free: precision, warmup, ..."
)
@click.option(
    "--objective",
    type=Choice(["tokens-per-second", "tokens-per-joule"]),
    default="tokens-per-second",
    show_default=True,
    help="What is maximised; tokens-per-joule needs the GPU's watts.",
)
@click.option(
    "--sampler",
    type=Choice(["auto", "tpe", "gp", "random"]),
    default="auto",
    show_default=True,
    help="What proposes settings: ours (auto), or one of Optuna's; all keep to what "
    "fits. gp needs SciPy.",
)
@click.option("--output", default="", metavar="FILE", help="Where to write.")
@click.option("--in-place", is_flag=True, help="Write into CONFIG itself.")
@click.option("--diff", is_flag=True, help="Show what would be written; write nothing.")
@click.option(
    "--start-from",
    default="",
    metavar="STUDY",
    help="An earlier study to start from, or `none`; else the nearest finished one of "
    "this machine and these versions, and none in replay.",
)
@click.option("--studies", default=".fp8tune", show_default=True, help="Their folder.")
@click.option(
    "--storage",
    default="",
    metavar="URL",
    help="Keep the study there, e.g. sqlite:///x.db: any Optuna storage.  [default: "
    "study.journal in the study's folder]",
)
@click.option(
    "--export", default="", metavar="FILE", help="Write the trials as JSON lines."
)
@text_or_json
def command(config: str, output_format: str, **asked: Any) -> int:
    """Search for a faster setting of CONFIG and write it to CONFIG.tuned.toml.

    It changes micro-batch, gradient accumulation with it, activation checkpointing and
    compile; with --allow precision also bf16 or FP8. A chunked loss is no knob: in
    KempnerForge it saves no memory (fp8tune explain chunked-loss-saves-nothing).

    Exit code 0: a config was written, or yours is the best; 1: no trial succeeded, or
    none is surely faster and not all is known; 2: could not start; 130: interrupted
    (the study is kept, the best so far is written).
    """
    from fp8tune.lint.settings import BadSettings
    from fp8tune.search import load_numpy
    from fp8tune.search.options import CannotSearch, SearchOptions, find_config

    try:
        config = config or find_config()
        with open(config, "rb"):
            pass
    except (CannotSearch, BadSettings) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{config}: {error.strerror}") from None
    try:
        load_numpy()
        from fp8tune.search.session import search
    except ModuleNotFoundError as error:
        hint = "pip install 'fp8tune[search]'"
        raise Failure(f"search needs {error.name}: {hint}") from None
    if asked["in_place"] and asked["output"]:
        raise Failure("--in-place and --output exclude each other")
    if asked["records"] and asked["runner"] != "replay":
        raise Failure("--records is for --runner replay; add that")
    asked["world_size"] = asked["world_size"] or 0
    asked["as_json"] = output_format == "json"
    try:
        return search(SearchOptions(config=config, **asked), _write_report)
    except CannotSearch as error:
        raise Failure(str(error)) from None


def _write_report(folder: str, out: TextIO, url: str) -> None:
    """Write the report of a study, if what that needs is installed."""
    try:
        from fp8tune.report.html import write_at_end
    except ModuleNotFoundError as error:
        hint = "pip install 'fp8tune[search]'"
        print(f"note: no report: it needs {error.name}: {hint}", file=sys.stderr)
        return
    write_at_end(folder, out, url)
