"""Optuna samplers that tune the throughput of training on GPUs.

They search settings such as micro-batch, activation checkpointing and compile for the
most tokens/s. A setting may run out of memory, and a trial takes minutes. They need
only Optuna and NumPy::

    import optuna
    from fp8tune.search.sampler import ThroughputSampler

    sampler = ThroughputSampler(
        {"batch": [1, 2, 4, 8, 16], "ac": ["none", "full"], "compile": [True, False]},
        batch="batch", ac="ac", compile="compile",
    )

    def objective(trial):
        setting = sampler.suggest(trial)
        gib = 20 + setting["batch"] * (12 if setting["ac"] == "none" else 4)
        if gib > 76:
            trial.set_user_attr("outcome", "oom")
            raise optuna.TrialPruned
        trial.set_user_attr("peak_gib", gib)
        speed = 9000 * setting["batch"] / (setting["batch"] + 1)
        speed *= 1.0 if setting["ac"] == "none" else 0.78
        return speed * (1.15 if setting["compile"] else 1.0)

    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.enqueue_trial({"batch": 1, "ac": "full", "compile": True})
    study.optimize(objective, n_trials=30, callbacks=[sampler.stop_when_done])

An objective returns tokens/s. User attributes of a trial give the rest, all optional:
``outcome`` (``ok``, ``oom``, ``compile``, ``hang``, ...), ``peak_gib`` and
``reserved_gib`` (allocated and reserved memory of the fullest GPU), ``capacity_gib``
(the GPU's memory) and ``alloc_retries``. Without ``outcome`` a pruned trial or a broken
constraint counts as out of memory.

``ThroughputSampler`` models memory and speed. ``FeasibleSampler`` restricts any other
Optuna sampler to settings that probably fit. Both are stateless: a proposal follows
from the study's trials, so an interrupted study continues as if it had not been.
"""

from fp8tune.search.sampler.base import Proposal
from fp8tune.search.sampler.feasible import FeasibleSampler, library_sampler
from fp8tune.search.sampler.memory import Expected
from fp8tune.search.sampler.throughput import ThroughputSampler
from fp8tune.search.sampler.transfer import EarlierTrial

__all__ = [
    "EarlierTrial",
    "Expected",
    "FeasibleSampler",
    "Proposal",
    "ThroughputSampler",
    "library_sampler",
]
