"""``fp8tune init``: a config to start from."""

from __future__ import annotations

import click

from fp8tune import completion
from fp8tune.cli import Failure, named_trainer


@click.command("init", short_help="Write a config to start from.")
@click.option(
    "--model",
    required=True,
    metavar="NAME",
    shell_complete=completion.models,
    help="Published model, e.g. llama3-8b.",
)
@click.option(
    "--gpu",
    required=True,
    metavar="NAME",
    shell_complete=completion.gpus,
    help="GPU, e.g. h100 or h200.",
)
@click.option(
    "--world-size",
    required=True,
    type=click.IntRange(1, 10**7),
    metavar="N",
    help="Number of GPUs, e.g. 16.",
)
@click.option(
    "--seq-len",
    type=click.IntRange(16, 1 << 20),
    default=4096,
    show_default=True,
    metavar="TOKENS",
    help="Sequence length, a multiple of 16.",
)
@click.option(
    "--step-tokens",
    type=click.IntRange(1, 1 << 30),
    default=1 << 20,
    show_default=True,
    metavar="TOKENS",
    help="Tokens of an optimizer step over all GPUs.",
)
@click.option(
    "--trainer",
    default="",
    metavar="NAME",
    callback=named_trainer,
    shell_complete=completion.trainers,
    help="Trainer that the config is for; by default the first that has such a config.",
)
@click.option(
    "--output", default="", metavar="FILE", help="Write to a new FILE, not to stdout."
)
def command(
    model: str,
    gpu: str,
    world_size: int,
    seq_len: int,
    step_tokens: int,
    trainer: str,
    output: str,
) -> None:
    """Write a commented config for a published model, to start from.

    Micro-batch, AC and precision are the fastest that fit, as `fp8tune estimate`
    predicts. `fp8tune lint` finds no error and no warning in it.

    \b
    Models: llama2-7b, llama2-13b, llama2-70b, llama3-8b, llama3-70b, qwen3-8b,
    qwen3-14b, tinyllama-1.1b

    \b
    Example:
      fp8tune init --model llama3-8b --gpu h100 --world-size 16 --output train.toml
    """
    from fp8tune.config.directive import BadTarget, asked
    from fp8tune.estimate.starter import CannotStart, starter
    from fp8tune.trainers.about import misnamed, trainers
    from fp8tune.trainers.trainer import trainer as by_name

    if trainer and (wrong := misnamed(trainer)):
        raise Failure(wrong)
    known = map(by_name, [trainer] if trainer else trainers())
    try:
        target = asked(gpu, world_size)
        chosen = next(each for each in known if each.starter or trainer)
        text = starter(chosen, model, target, seq_len, step_tokens)
    except (BadTarget, CannotStart) as error:
        raise Failure(str(error)) from None
    if not output:
        click.echo(text, nl=False)
        return
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Failure(f"{output} exists; give another --output") from None
    except OSError as error:
        raise Failure(f"{output}: {error.strerror}") from None
    click.echo(f"wrote {output}")
