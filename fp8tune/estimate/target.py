"""For which GPUs a config is estimated: what the user says, else what the file says."""

from __future__ import annotations

from fp8tune.estimate.grid import Variants, by_title
from fp8tune.lint.claims.contradiction import titled_gpus
from fp8tune.lint.config import Config
from fp8tune.lint.directive import Directive
from fp8tune.trainers.faults import Loaded


def titled(known: Config, loaded: Loaded) -> tuple[int, int]:
    """How many GPUs the config's title names, and on which line, or 0."""
    if known.job.target.world_size:
        return 0, 0
    return titled_gpus(known.document, known.trainer, loaded, Directive())


def on_its_gpus(known: Config) -> Config:
    """The config on as many GPUs as its degrees or its title say, where nobody does."""
    loaded = known.trainer.load(known.document.values)
    variants = Variants(known.trainer, loaded, known.job.target).placed()
    if not variants.target.world_size:
        variants = by_title(variants, titled(known, loaded))
    return known._replace(job=variants.job)
