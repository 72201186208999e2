"""The strategies that race, by name: ours first, then its rivals, then its variants."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.search import arms, optuna_arms
from benchmarks.search.landscape import World
from benchmarks.search.race import Result, Variant, ours, race

ARMS: dict[str, Callable[[World], Result]] = {
    "ours": lambda w: ours(w, Variant()),
    "TPE, OOM a constraint": lambda w: race(w, optuna_arms.tpe),
    "TPE, OOM a failure": lambda w: race(w, optuna_arms.tpe_fail),
    "random": lambda w: race(w, arms.random_order),
    "doubling by hand": lambda w: race(w, arms.doubling),
    "DeepSpeed's rule": lambda w: race(w, arms.deepspeed),
    "TPE with our filter": lambda w: ours(w, Variant(sampler="tpe")),
    "ours, estimate wrong by 10 %": lambda w: ours(w, Variant(error=0.10)),
    "ours, estimate wrong by 25 %": lambda w: ours(w, Variant(error=0.25)),
    "ours, without warm starts": lambda w: ours(w, Variant(usual=False)),
    "ours, records without peaks": lambda w: ours(w, Variant(peaks=False)),
    "ours, allocator retries at the start": lambda w: ours(w, Variant(retries=True)),
}
