"""The study once more in Optuna's journal, for optuna-dashboard.

Written beside ``trials.jsonl`` as trials come in, where Optuna is installed. It is
never read by a search: what is missing or broken is made anew from the trials. The one
place that knows Optuna's names and versions (4.9 to 5).
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fp8tune.search.space import Space
from fp8tune.search.study import Trial, timed

if TYPE_CHECKING:
    import optuna

NAME = "optuna.journal"


class Journal:
    """The journal of a study's folder."""

    def __init__(self, folder: str, space: Space) -> None:
        self._folder = folder
        self._space = space
        self._study: optuna.Study | None = None
        self._written = 0

    def write(self, trials: Sequence[Trial]) -> None:
        """Add the trials that are not in it yet; does nothing without Optuna."""
        try:
            import optuna
        except ImportError:
            return
        with warnings.catch_warnings(), contextlib.suppress(OSError):
            warnings.simplefilter("ignore")
            if self._study is None:
                optuna.logging.set_verbosity(optuna.logging.WARNING)
                self._study = self._fresh()
            for trial in timed(trials)[self._written :]:
                self._study.add_trial(_frozen(self._space, trial))
                self._written += 1

    def _fresh(self) -> optuna.Study:
        import optuna
        from optuna.storages.journal import JournalFileBackend

        path = os.path.join(self._folder, NAME)
        for old in (path, f"{path}.lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(old)
        storage = optuna.storages.JournalStorage(JournalFileBackend(path))
        name = os.path.basename(self._folder)
        return optuna.create_study(
            study_name=name, storage=storage, direction="maximize"
        )


def _frozen(space: Space, trial: Trial) -> optuna.trial.FrozenTrial:
    """A trial as Optuna has it: one that ran out of memory broke a constraint.

    It is no failed one, which Optuna's samplers would leave out of what they learn.
    What was ended early for being slow is pruned, as Optuna calls that.
    """
    import optuna

    record = trial.record
    state = optuna.trial.TrialState.FAIL
    if record.measured:
        state = optuna.trial.TrialState.COMPLETE
    elif record.ok or record.outcome == "oom":
        state = optuna.trial.TrialState.PRUNED
    attributes = {"outcome": record.outcome, "stage": trial.stage}
    measured = {"peak_gib": record.peak_gib, "cost_s": record.cost_s}
    return optuna.trial.create_trial(
        state=state,
        value=record.tokens_per_second if record.measured else None,
        params={knob.key: record.knobs.get(knob.key) for knob in space.knobs},
        distributions=_distributions(space),
        user_attrs={**attributes, **measured},
        system_attrs={"constraints": [float(record.outcome == "oom")]},
    )


def _distributions(space: Space) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution

    return {knob.key: CategoricalDistribution(knob.values) for knob in space.knobs}
