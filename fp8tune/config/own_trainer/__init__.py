"""A trainer that a user describes in one TOML file: read, checked, and added.

The file is data. Its expressions are those of rules, and nothing of it is run. Every
part is checked first; the first thing wrong is said with its line.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from fp8tune.config.own_trainer.fields import Fields
from fp8tune.config.own_trainer.file import BadTrainer, read_file
from fp8tune.config.own_trainer.keys import read_schema, whole
from fp8tune.trainers.about import USUAL, About, Own, add, trainers
from fp8tune.trainers.trainer import trainer

__all__ = ["BadTrainer", "add_trainer", "reread_trainers"]


def add_trainer(path: str, folder: str = "") -> str:
    """Add the trainer that a file describes; return its name.

    A folder stands for its ``trainer.toml``. ``folder`` is where the path begins.
    Raises ``BadTrainer``.
    """
    path = os.path.join(folder, path)
    if os.path.isdir(path):
        path = os.path.join(path, "trainer.toml")
    name = _name(path)
    place = os.path.abspath(path)
    taken = trainers().get(name)
    if taken is not None and taken.own and taken.own.path == place:
        return name
    if taken is not None:
        where = taken.own.path if taken.own else "built into fp8tune"
        raise BadTrainer(f"{path}: there is a trainer {name} already, {where}: rename")
    file = read_file(path)
    schema = read_schema(file)
    fields = Fields(file, dict(schema.dotted_keys()))
    sections = [*schema.sections]
    head = {"title": file.values["title"], "tables": sections, "harmless": sections}
    head |= {k: file.values[k] for k in ("formats", "reads") if k in file.values}
    tried = {knob["role"]: [] for knob in USUAL} | fields.tried()
    knobs = [{"role": role, "values": values} for role, values in tried.items()]
    about = About(name, {**head, "versions": [""], "knob": knobs})
    renamed, computed = fields.job(about)
    run = file.values.get("run", {})
    about.own = Own(place, whole(file, renamed), computed, run)
    add(about)
    try:
        fields.no_circle(trainer(name).vocabulary)
    except BadTrainer:
        del trainers()[name]
        trainer.cache_clear()
        raise
    return name


def reread_trainers() -> None:
    """Read the files of all added trainers again; one that is wrong by now is gone."""
    paths = {about.name: about.own.path for about in trainers().values() if about.own}
    for name, path in paths.items():
        del trainers()[name]
        trainer.cache_clear()
        with suppress(BadTrainer):
            add_trainer(path)


def _name(path: str) -> str:
    """Return the name of the trainer of a file; raises ``BadTrainer``."""
    folder, file = os.path.split(os.path.abspath(path))
    stem = file.removesuffix(".toml")
    name = os.path.basename(folder) if stem == "trainer" else stem
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name):
        raise BadTrainer(
            f"{path}: a trainer is called as its file, by lower-case letters, digits, "
            f"- and _, but {name!r} is not: rename it, such as ours.toml"
        )
    return name
