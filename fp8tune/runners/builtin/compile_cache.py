"""Let torch reuse, in a later trial, what it compiled of a setting in FP8.

AOTAutograd's cache skips any graph that calls a function which torch does not list as
cacheable. A graph with torchao's FP8 linears calls the classes of its configuration,
and the linear's matmul through a local function of Dynamo that has no importable name
(torch 2.11 to 2.13, ``_functorch/_aot_autograd/autograd_cache.py``, ``check_node_safe``
and the pickled key; ``_dynamo/variables/misc.py``).

What runs is the same with and without the cache. The cache's key has the whole graph
with the arguments of these classes, shapes, torch's version and its configuration; this
module adds torchao's version. Where torch changes these internals, each trial compiles
as before.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from inspect import signature
from typing import Any

import torch._inductor.config as inductor

SUFFIX = "_apply"
CALLED = (
    "torchao.float8.config.CastConfig",
    "torchao.float8.config.Float8GemmConfig",
    "torchao.float8.config.Float8LinearConfig",
    "torchao.float8.float8_training_tensor.LinearMMConfig",
    "torchao.float8.float8_training_tensor.ScaledMMConfig",
    f"torchao.float8.float8_linear.matmul_with_hp_or_float8_args{SUFFIX}",
)
"""What the graph of an FP8 linear calls, beside functions of torch."""


def reuse_float8_graphs() -> None:
    """Allow AOTAutograd's cache for graphs with torchao's FP8 linears."""
    with suppress(ImportError, AttributeError):
        from torch._dynamo.variables import misc

        if len(signature(misc.produce_trampoline_autograd_apply).parameters) != 1:
            return
        inductor.unsafe_marked_cacheable_functions = {
            **inductor.unsafe_marked_cacheable_functions,
            **dict.fromkeys(CALLED, f"torchao {version('torchao')}"),
        }
        misc.produce_trampoline_autograd_apply = _named_apply


@functools.cache
def _named_apply(function: type) -> Callable[..., Any]:
    """Return a call of ``function.apply`` that can be imported by its name.

    ``function`` is a ``torch.autograd.Function``. Dynamo makes a call for
    each use, all with the same name, so that a cache cannot tell two functions apart.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return function.apply(*args, **kwargs)  # type: ignore[attr-defined]

    call.__module__ = function.__module__
    call.__name__ = call.__qualname__ = f"{function.__name__}{SUFFIX}"
    call._origin = _named_apply  # type: ignore[attr-defined]  # Dynamo checks it
    setattr(sys.modules[function.__module__], call.__name__, call)
    return call
