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
        trial.set_constraint("memory_gib", gib - 76)
        if gib > 76:
            raise optuna.TrialPruned
        trial.set_user_attr("peak_gib", gib)
        speed = 9000 * setting["batch"] / (setting["batch"] + 1)
        speed *= 1.0 if setting["ac"] == "none" else 0.78
        return speed * (1.15 if setting["compile"] else 1.0)

    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.enqueue_trial({"batch": 1, "ac": "full", "compile": True})
    study.optimize(objective, n_trials=30, callbacks=[sampler.stop_when_done])

An objective returns tokens/s. The rest is optional. The user attributes ``peak_gib``
and ``capacity_gib`` are the peak of the fullest GPU, and that GPU's memory. A trial
that runs and violates the constraint ``memory_gib`` leaves too little memory; if it
violates another one, its setting is not the best. A pruned trial ran out of memory, or
its setting failed otherwise if it violates the constraint ``failed``. The setting of a
failed trial is tried once more.

``ThroughputSampler`` models memory and speed. ``FeasibleSampler`` restricts any other
Optuna sampler to settings that probably fit. Both are stateless: a proposal follows
from the study's trials, so an interrupted study continues as if it had not been.
"""

from fp8tune.search.sampler.base import Proposal
from fp8tune.search.sampler.feasible import FeasibleSampler, library_sampler
from fp8tune.search.sampler.memory import Expected
from fp8tune.search.sampler.throughput import ThroughputSampler

__all__ = [
    "Expected",
    "FeasibleSampler",
    "Proposal",
    "ThroughputSampler",
    "library_sampler",
]
