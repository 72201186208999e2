"""``fp8tune schema``: the JSON Schema of a trainer's config, for editors."""

from __future__ import annotations

import click

from fp8tune.cli import Failure, trainer_option


@click.command("schema", short_help="Print a JSON Schema for editors.")
@trainer_option
def command(trainer: str) -> None:
    """Print the JSON Schema of a trainer's config.

    With it an editor completes keys and values, explains them, and underlines what the
    trainer refuses. Without --trainer it is that of [tool.fp8tune] in pyproject.toml.

    \b
    Examples:
      fp8tune schema --trainer torchtitan==0.2.2 > torchtitan.schema.json
      then write in the first line of a config in the same folder:
      #:schema ./torchtitan.schema.json
    """
    import json
    import os

    from fp8tune.config.settings import BadSettings, settings_for
    from fp8tune.trainers.about import misnamed, trainers
    from fp8tune.trainers.json_schema import json_schema
    from fp8tune.trainers.trainer import trainer as by_name

    try:
        settings = settings_for(os.getcwd())
    except BadSettings as error:
        raise Failure(str(error)) from None
    name = trainer or settings.trainer
    if not name:
        ids = [id_ for about in trainers().values() for id_ in about.ids]
        raise Failure(
            f"which trainer? write fp8tune schema --trainer {ids[0]}; "
            f"there are {', '.join(ids)}"
        )
    if wrong := misnamed(name):
        raise Failure(wrong)
    known = by_name(name).tolerating(settings.extra_keys)
    click.echo(json.dumps(json_schema(known), indent=2, ensure_ascii=False))
