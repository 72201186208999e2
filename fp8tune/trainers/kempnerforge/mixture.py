"""The data mixture of a KempnerForge config: its sources, names and phases.

Every public function is a name of the job, as in ``job.py``.

Source: KempnerForge at commit 5666d0d, scripts/train.py and data/sampler.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fp8tune.job import Unknown, known

HUB_ROWS = {("sayakpaul/coco-30-val-2014", "train"): 30}
"""Rows of the hub dataset that the trainer's VLM configs name, by name and split."""


def hub_rows(data_hf_dataset_name: Any, data_hf_dataset_split: Any) -> int:
    """Rows of the hub data set, for the few whose size fp8tune knows.

    Source: https://huggingface.co/datasets/sayakpaul/coco-30-val-2014
    """
    rows = HUB_ROWS.get((data_hf_dataset_name, data_hf_dataset_split))
    return known("hub_rows", rows)


def samples(
    vlm: bool,
    video: bool,
    hub_rows: int | None = None,
    video_max_samples: int | None = None,
) -> int:
    """Upper limit of a VLM data set's samples. A video manifest may be capped.

    Source: data/video_dataset.py, _load_manifest.
    """
    if not vlm:
        raise Unknown("samples")
    return known("samples", (video_max_samples or None) if video else hub_rows)


def mixture_names(data_datasets: Any) -> list[Any]:
    """Names of the data sets for phases: name, else path, else hub name."""
    return [
        source.get("name") or source.get("path") or source.get("hf_name")
        for source in _tables(data_datasets)
    ]


def mixture_on_disk(data_datasets: Any) -> bool:
    """Whether some data set is a folder of token shards."""
    return any(source.get("path") for source in _tables(data_datasets))


def mixture_on_hub(data_datasets: Any) -> bool:
    """Whether some data set is tokenized during training."""
    sources = _tables(data_datasets)
    return any(source.get("hf_name") and not source.get("path") for source in sources)


def mixture_strangers(
    mixture_names: list[Any],
    data_phases: Any,
    data_anneal_start_step: int,
    data_anneal_weights: Any,
) -> list[str]:
    """Names in the weights of phases and annealing that match no data set."""
    weights = _weights(data_phases, data_anneal_start_step, data_anneal_weights)
    names = (name for _, table in weights for name in table)
    return list(dict.fromkeys(name for name in names if name not in mixture_names))


def mixture_empty_from(
    mixture_names: list[Any],
    data_phases: Any,
    data_anneal_start_step: int,
    data_anneal_weights: Any,
    max_steps: int,
) -> int:
    """First step at which every data set has weight 0, -1 for never.

    A phase changes the weights of the data sets that it names. The others keep theirs.
    """
    weights = _weights(data_phases, data_anneal_start_step, data_anneal_weights)
    for step, table in weights:
        if step < max_steps and all(table.get(name, 1) == 0 for name in mixture_names):
            return step
    return -1


def mixture_late_phase(
    data_phases: Any,
    data_anneal_start_step: int,
    data_anneal_weights: Any,
    max_steps: int,
) -> int:
    """Start of the first phase that begins after the run, -1 for none."""
    weights = _weights(data_phases, data_anneal_start_step, data_anneal_weights)
    return next((step for step, _ in weights if step >= max_steps), -1)


def anneal_minimum(
    data_phases: Any, data_anneal_start_step: int, data_anneal_weights: Any
) -> float:
    """The smallest weight of the annealing phase, 0 if there is none.

    The phase is built when the run starts, with or without a mixture.
    """
    if data_phases or data_anneal_start_step <= 0:
        return 0.0
    weights = dict(data_anneal_weights).values()
    return float(min((w for w in weights if isinstance(w, (int, float))), default=0.0))


def _tables(sources: Any) -> Iterator[dict[str, Any]]:
    for source in sources:
        if not isinstance(source, dict):
            raise Unknown("data.datasets")
        yield source


def _weights(
    phases: Any, anneal_start: int, anneal_weights: Any
) -> Iterator[tuple[int, dict[str, float]]]:
    """Start step and weights of every phase; annealing is a phase of its own."""
    if not phases and anneal_start > 0 and anneal_weights:
        phases = [{"start_step": anneal_start, "dataset_weights": anneal_weights}]
    for phase in phases:
        step = phase.get("start_step", 0) if isinstance(phase, dict) else None
        table = phase.get("dataset_weights", {}) if isinstance(phase, dict) else None
        if not isinstance(step, int) or not isinstance(table, dict):
            raise Unknown("data.phases")
        yield step, table
