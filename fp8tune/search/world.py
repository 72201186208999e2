"""How many GPUs the run has that trials stand for, and who says so."""

from __future__ import annotations

from fp8tune.lint.claims.contradiction import titled_gpus
from fp8tune.lint.directive import Directive
from fp8tune.search.plan import Config
from fp8tune.toml.document import parse


def counted(gpus: int) -> str:
    """So many GPUs, in words."""
    return f"{gpus} GPU{'s' * (gpus != 1)}"


def standing(config: Config) -> str:
    """What trials of a config stand for."""
    target = config.job.target
    said = f"trials stand for a run on {counted(target.world_size)}"
    if target.world_size_origin:
        return f"{said}, by {target.world_size_origin}"
    return f"{said}, as nothing says how many; --world-size N is for N"


def larger(config: Config) -> str:
    """That the file is for more GPUs, where it is taken for a run on fewer."""
    target = config.job.target
    if target.world_size_origin:
        return ""
    document = parse(config.data)
    gpus, line = titled_gpus(document, config.trainer, config.loaded, Directive())
    if gpus <= target.world_size:
        return ""
    return (
        f"warning: {config.path}:{line}: the title says {gpus} GPUs; what is best on "
        f"{counted(target.world_size)} is not there; give --world-size {gpus}"
    )
