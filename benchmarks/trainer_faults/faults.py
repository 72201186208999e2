"""The faults: one function for each, with the runs and the figures that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.trainer_faults.compare import (
    apart,
    different_experts,
    distance,
    only_experts,
    ratios_of_norms,
    saved,
    saved_experts,
    sources,
    with_state,
)
from benchmarks.trainer_faults.lab import Lab

UNCLIPPED = {"train.grad_clip_norm": 1e30}
"""A limit for the norm of gradients that none reaches."""
EXACT = 1e-3
"""How far gradients may be apart, in units of their norm, for sums in other orders."""


class Figure(NamedTuple):
    """One figure of a run with the fault's cause, and of a run without."""

    what: str
    fault: Any
    control: Any


def clipping_per_expert_group(lab: Lab) -> Iterator[Figure]:
    """Weights that two expert-parallel ranks share part where gradients are clipped."""
    keys = {"model.num_experts": 4, "distributed.ep": 2}
    gaps = []
    for clip in ({"train.grad_clip_norm": 1.0}, UNCLIPPED):
        ranks = lab.train(2, {**keys, **clip, "train.max_steps": 20}).ranks
        shared = only_experts(ranks[0]["end"], wanted=False)
        gaps.append(max(apart(shared, ranks[1]["end"]).values(), default=0.0))
    what = "largest distance of a shared weight between 2 ranks after 20 steps"
    yield Figure(f"{what}; control: no clipping", *gaps)
    once = {**keys, **UNCLIPPED, "train.max_steps": 1}
    mine = lab.train(2, once).ranks[0]["norms"][0]
    whole = lab.train(1, {**once, "distributed.ep": 1}).ranks[0]["norms"][0]
    both = (ratios_of_norms(mine, whole, experts) for experts in (True, False))
    what = "norms of experts' gradients with ep = 2 in those with ep = 1"
    yield Figure(f"{what}; control: all other gradients", *both)


def expert_parallel_checkpoint(lab: Lab) -> Iterator[Figure]:
    """A checkpoint holds some of the experts, mixed from those of several ranks."""
    for ranks, packed in ((2, False), (4, True)):
        keys = {"model.num_experts": 4, "model.moe_packed_experts": packed}
        counts, resumed, mixed = [], [], []
        for ep in (2, 1):
            run = {**keys, "distributed.ep": ep, "train.max_steps": 2}
            first = lab.train(ranks, run)
            counts.append(saved_experts(saved(first.checkpoints)))
            again = {"checkpoint.dir": str(first.checkpoints), "train.max_steps": 3}
            loaded = [r["start"] for r in lab.train(ranks, {**run, **again}).ranks]
            resumed.append(different_experts(loaded))
            mixed.append(len(sources(loaded[0], [r["end"] for r in first.ranks])))
        how = f"{ranks} ranks{', packed' if packed else ''}; control: ep = 1"
        yield Figure(f"experts of 4 per layer in the checkpoint, {how}", *counts)
        yield Figure(f"different experts per layer when resumed, {how}", *resumed)
        what = "ranks whose matrices make up the first expert when resumed"
        yield Figure(f"{what}, {how}", *mixed)


def checkpoint_never_loads(lab: Lab) -> Iterator[Figure]:
    """A run that is started again on its own checkpoint fails."""
    free = {"optimizer.name": "schedule_free_adamw", "scheduler.name": "none"}
    stages = {"distributed.pp": 2, "distributed.dp_shard": 1}
    for what, ranks, fault in (
        ("schedule-free AdamW; control: AdamW", 1, free),
        ("2 pipeline stages; control: 2 FSDP ranks", 2, stages),
    ):
        errors = []
        for keys in (fault, {}):
            run = {"train.grad_accum_steps": 2, **keys, "train.max_steps": 2}
            folder = str(lab.train(ranks, run).checkpoints)
            again = {"checkpoint.dir": folder, "train.max_steps": 3}
            errors.append(lab.attempt(ranks, {**run, **again}).error or "none")
        yield Figure(f"error when resumed, {what}", *errors)


def qk_norm_with_tensor_parallel(lab: Lab) -> Iterator[Figure]:
    """Each tensor-parallel rank trains norms of queries and keys of its own."""
    parted, off = [], []
    for qk_norm in (True, False):
        keys = {"model.qk_norm": qk_norm, **UNCLIPPED}
        base = lab.train(1, {**keys, "train.max_steps": 1}).checkpoints
        start = {**keys, "checkpoint.load_path": str(base / "step_1")}
        whole = lab.train(1, {**start, "train.max_steps": 2}).ranks[0]["gradients"]
        more = {"distributed.tp": 2, "train.max_steps": 21}
        ranks = lab.train(2, {**start, **more}).ranks
        parted.append(apart(ranks[0]["end"], ranks[1]["end"]))
        gradients = [rank["gradients"] for rank in ranks]
        worst = {n: max(distance(g, r[n]) for r in gradients) for n, g in whole.items()}
        off.append({name: value for name, value in worst.items() if value > EXACT})
    control = "control: no QK norm"
    what = "weights that differ between 2 ranks after 20 steps"
    yield Figure(f"{what}; {control}", *parted)
    what = f"first gradients with tp = 2 that are over {EXACT:g} off those with tp = 1"
    yield Figure(f"{what}; {control}", *off)


def muon_gradients_add_up(lab: Lab) -> Iterator[Figure]:
    """Gradients of what Muon leaves to AdamW add up, and its state is not saved."""
    norms, left, states = [], [], []
    for optimizer in ("muon", "adamw"):
        keys = {"optimizer.name": optimizer, "model.vocab_size": 1024, **UNCLIPPED}
        run = lab.train(1, {**keys, "train.max_steps": 3})
        kept = run.ranks[0]
        norms.append([step["output_head.proj.weight"] for step in kept["norms"]])
        count = len(kept["end"])
        left.append(len(kept["left"]))
        states.append(with_state(saved(run.checkpoints)))
    control = "control: AdamW"
    yield Figure(f"norm of the head's gradient in 3 steps; {control}", *norms)
    what = f"parameters of {count} whose gradients outlive zero_grad"
    yield Figure(f"{what}; {control}", *left)
    what = f"parameters of {count} with optimizer state in the checkpoint"
    yield Figure(f"{what}; {control}", *states)


def muon_on_shards(lab: Lab) -> Iterator[Figure]:
    """Muon's first step on 2 FSDP ranks differs from its first step on one."""
    updates: list[float] = []
    for optimizer in ("muon", "adamw"):
        keys = {"optimizer.name": optimizer, "optimizer.lr": 0.01, **UNCLIPPED}
        once = {**keys, "optimizer.weight_decay": 0.0, "train.max_steps": 1}
        whole = lab.train(1, {**once, "train.batch_size": 4}).ranks[0]
        parts = lab.train(2, {**once, "train.batch_size": 2}).ranks[0]
        steps = [
            {n: run["end"][n] - run["start"][n] for n in run["end"] if "_proj" in n}
            for run in (whole, parts)
        ]
        inside = {n: step for n, step in steps[0].items() if "output_head" not in n}
        updates.append(min(distance(g, steps[1][n]) for n, g in inside.items()))
    what = "least distance of a block's first update on 2 ranks from that on 1"
    yield Figure(f"{what}; control: AdamW", *updates)


def checkpoint_folder_of_another_model(lab: Lab) -> Iterator[Figure]:
    """A run that finds the checkpoint of another model in its folder."""
    for key, value in (("model.n_kv_heads", 2), ("model.n_layers", 4)):
        errors = []
        for other in ({key: value}, {}):
            folder = str(lab.train(1, {"train.max_steps": 2}).checkpoints)
            again = {"checkpoint.dir": folder, "train.max_steps": 4}
            errors.append(lab.attempt(1, {**again, **other}).error or "none")
        yield Figure(f"error with another {key}; control: the same model", *errors)
    large = lab.train(1, {"model.n_layers": 4, "train.seed": 1})
    own: dict[str, Any] = {"train.max_steps": 3, "model.n_layers": 2}
    taken = []
    for keys in ({**own, "checkpoint.dir": str(large.checkpoints)}, own):
        start = lab.train(1, keys).ranks[0]["start"]
        held = large.ranks[0]["end"]
        taken.append(sum(bool(held[n].equal(start[n])) for n in start if "_proj" in n))
    what = "matrices that a model with 2 layers takes from the 4 of the other one"
    yield Figure(f"{what}; control: a folder of its own", *taken)


def checkpoint_folder_of_another_run(lab: Lab) -> Iterator[Figure]:
    """A second run in the same folder, with a learning rate of its own."""
    counts = []
    for shared in (True, False):
        folder = str(lab.train(1, {"train.max_steps": 2}).checkpoints)
        again = {"optimizer.lr": 1e-2, "train.max_steps": 2}
        own = {"checkpoint.dir": folder} if shared else {}
        counts.append(len(lab.train(1, {**again, **own}).ranks[0]["norms"]))
    what = (
        "steps that the second of two runs of 2 steps takes in the folder of the first"
    )
    yield Figure(f"{what}; control: a folder of its own", *counts)


FAULTS: dict[str, Callable[[Lab], Iterator[Figure]]] = {
    "clipping-per-expert-group": clipping_per_expert_group,
    "expert-parallel-checkpoint": expert_parallel_checkpoint,
    "checkpoint-never-loads": checkpoint_never_loads,
    "qk-norm-with-tensor-parallel": qk_norm_with_tensor_parallel,
    "muon-gradients-add-up": muon_gradients_add_up,
    "muon-on-shards": muon_on_shards,
    "checkpoint-folder-of-another-model": checkpoint_folder_of_another_model,
    "checkpoint-folder-of-another-run": checkpoint_folder_of_another_run,
}
"""By the rule that speaks of them."""
