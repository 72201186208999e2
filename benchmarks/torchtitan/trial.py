"""Whether the built-in trial does what torchtitan does: operators, memory, loss.

``TRAINER_PYTHON -m benchmarks.torchtitan.trial SITES`` needs a Python with torch,
torchao and what torchtitan imports. SITES is a folder with the unpacked wheels, each in
a folder named as its version. Each case of ``CASES`` runs two steps on the CPU, once
with torchtitan's own model, converters, sharding, loss and clipping (``judge.py``
follows its start) and once as a trial, each in a process of its own. Compared are what
the second step computes (how often each operator of ``COUNTED`` runs), the peak of
live memory in the forward pass, in the backward pass and in the optimizer, and on one
rank the losses from equal weights. Nothing is compiled: that takes a GPU to be of use.

Exit code 0: all agree within ``ALIKE``; 1: some do not. ``--output FOLDER`` keeps
torchtitan's figures as ``torchtitan_trial.json``, which a test compares with trials,
and both as a table in ``torchtitan_trial.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.job import Target
from fp8tune.trainers.torchtitan.gemms import NAMES
from fp8tune.trainers.trainer import trainer
from tests.support.live_bytes import LiveBytes
from tools.torchtitan import judge

ALIKE = 0.005
"""Largest relative difference of a peak that counts as alike."""

COUNTED = (
    "aten::mm",
    "aten::_scaled_mm",
    "aten::scaled_dot_product_attention",
    "aten::embedding",
    "aten::embedding_dense_backward",
    "aten::silu",
    "aten::view_as_complex",
    "aten::amax",
    "aten::log_softmax",
    "fsdp::all_gather_copy_in",
    "fsdp::split_with_sizes_copy",
    "fsdp::chunk_cat",
)
"""Operators of a step that are counted."""

SEED = 7
BATCH, LENGTH = 2, 64

BASE = """
[model]
name = "{model}"
flavor = "debugmodel"
converters = [{converter}]
[training]
local_batch_size = 2
global_batch_size = {whole}
seq_len = 64
steps = 10
"""


class Case(NamedTuple):
    """A config of a release, on a number of ranks; ``more`` are further tables."""

    name: str
    version: str
    ranks: int
    more: str = ""
    fp8: bool = False
    accumulated: int = 1
    model: str = "llama3"

    def text(self) -> str:
        """The config."""
        word = '"float8"' if self.version == "0.1.0" else '"quantize.linear.float8"'
        whole = BATCH * self.ranks * self.accumulated
        converter = word if self.fp8 else ""
        base = BASE.format(converter=converter, whole=whole, model=self.model)
        return base + self.more


def ac(mode: str, option: str = "op") -> str:
    """The table of an AC mode."""
    return (
        f'[activation_checkpoint]\nmode = "{mode}"\nselective_ac_option = "{option}"\n'
    )


FLOAT8 = "[quantize.linear.float8]\n"
GATHERED = f"{FLOAT8}enable_fsdp_float8_all_gather = true\n"
ALWAYS = '[parallelism]\nfsdp_reshard_after_forward = "always"\n'
NEVER = '[parallelism]\nfsdp_reshard_after_forward = "never"\n'
ROWWISE = f'{FLOAT8}recipe_name = "rowwise"\n'
FILTERED = f'{FLOAT8}filter_fqns = ["output", "layers.1."]\n'
AT_ONCE = f"{GATHERED}precompute_float8_dynamic_scale_for_fsdp = true\n"

CASES = (
    Case("bf16, one rank, no AC", "0.2.2", 1, ac("none")),
    Case("bf16, one rank, per-op AC", "0.2.2", 1, ac("selective")),
    Case("bf16, one rank, full AC", "0.2.2", 1, ac("full")),
    Case("FP8, one rank", "0.2.2", 1, ac("none"), fp8=True),
    Case("bf16, 8 ranks, no AC", "0.2.2", 8, ac("none")),
    Case("bf16, 8 ranks, per-op AC", "0.2.2", 8, ac("selective")),
    Case("bf16, 8 ranks, every-2", "0.2.2", 8, ac("selective", "2")),
    Case("bf16, 8 ranks, full AC, accumulates", "0.2.2", 8, ac("full"), accumulated=2),
    Case("bf16, 8 ranks, frees always", "0.2.2", 8, ac("full") + ALWAYS),
    Case("bf16, 8 ranks, frees never", "0.2.2", 8, ac("full") + NEVER),
    Case("FP8, 8 ranks, full AC", "0.2.2", 8, ac("full"), fp8=True),
    Case("FP8, 8 ranks, per-op AC", "0.2.2", 8, ac("selective") + FLOAT8, fp8=True),
    Case("FP8 rowwise, 8 ranks", "0.2.2", 8, ac("full") + ROWWISE, fp8=True),
    Case("FP8 filtered, 8 ranks", "0.2.2", 8, ac("full") + FILTERED, fp8=True),
    Case("FP8 gathered, 8 ranks", "0.2.2", 8, ac("full") + AT_ONCE, fp8=True),
    Case("Qwen3, 8 ranks", "0.2.2", 8, ac("selective"), model="qwen3"),
    Case("bf16, 8 ranks, per-op AC", "0.2.1", 8, ac("selective")),
    Case("bf16, 8 ranks, per-op AC", "0.2.0", 8, ac("selective")),
    Case("bf16, 8 ranks, full AC", "0.1.0", 8, ac("full")),
    Case("bf16, one rank, per-op AC", "0.1.0", 1, ac("selective")),
    Case("FP8, 8 ranks, per-op AC", "0.1.0", 8, ac("selective"), fp8=True),
)
"""What is compared; torchtitan's debug models have 6 and 8 blocks of width 256."""


def main(arguments: list[str] | None = None) -> int:
    """Run the cases, print a table, and say which are not alike."""
    parser = argparse.ArgumentParser(prog="torchtitan.trial", description=__doc__)
    parser.add_argument("sites", type=Path, help="a folder with unpacked wheels")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--output", type=Path, help="where to keep the figures")
    options = parser.parse_args(arguments)
    rows, kept = [HEAD], {}
    different = 0
    for case in (case for case in CASES if options.only in case.name):
        theirs = apart(by_trainer, case, str(options.sites))
        ours = apart(as_trial, case, theirs.pop("weights", None))
        row, alike = compared(case, theirs, ours)
        kept[f"{case.version}, {case.name}"] = theirs
        different += not alike
        rows.append(row)
        print(row, flush=True)
    if options.output:
        folder: Path = options.output
        table, figures = "\n".join(rows), json.dumps(kept, indent=1)
        (folder / "torchtitan_trial.md").write_text(f"{table}\n", encoding="utf-8")
        (folder / "torchtitan_trial.json").write_text(f"{figures}\n", encoding="utf-8")
    return int(different > 0)


HEAD = """# The built-in trial against torchtitan

Two steps on the CPU, written by `python -m benchmarks.torchtitan.trial`. Peaks are MiB
of live memory, torchtitan's and the trial's.

| release | case | operators | forward | backward | optimizer | losses |
| --- | --- | --- | --- | --- | --- | --- |"""


def compared(
    case: Case, theirs: dict[str, Any], ours: dict[str, Any]
) -> tuple[str, bool]:
    """A row of the table, and whether the two are alike."""
    odd = {
        name: (theirs["counts"].get(name, 0), ours["counts"].get(name, 0))
        for name in COUNTED
        if theirs["counts"].get(name, 0) != ours["counts"].get(name, 0)
    }
    cells = [
        "same" if not odd else "; ".join(f"{n} {a}/{b}" for n, (a, b) in odd.items())
    ]
    alike = not odd
    for phase in ("forward", "backward", "optimizer"):
        one, other = (found["peaks"].get(phase, 0) / 2**20 for found in (theirs, ours))
        off = abs(other / one - 1) if one else 0.0
        alike &= off <= ALIKE
        cells.append(f"{one:.1f} / {other:.1f}")
    losses = "not compared"
    if ours["losses"] and case.ranks == 1:
        pairs = zip(theirs["losses"], ours["losses"], strict=True)
        losses = ", ".join(f"{a:.4f} / {b:.4f}" for a, b in pairs)
    row = " | ".join([case.version, case.name, *cells, losses])
    return f"| {row} |{'' if alike else ' <- differs'}", alike


def apart(call: Any, *arguments: Any) -> dict[str, Any]:
    """What a function returns in a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        found: dict[str, Any] = pool.apply(call, arguments)
    return found


def counted(step: Any) -> tuple[list[float], dict[str, int], dict[str, int]]:
    """Losses of two steps, counts of operators of the second, and its peaks.

    The first step allocates the optimizer's state, so the peaks are of both.
    """
    profiler: Any = import_module("torch.profiler")
    with LiveBytes("forward") as live:
        losses = [step(live.enter) for _ in range(2)]
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU], acc_events=True
    ) as seen:
        step(lambda _: None)
    counts = {event.key: event.count for event in seen.key_averages()}
    return losses, {k: v for k, v in counts.items() if k in COUNTED}, live.peaks


def batches(vocabulary: int) -> Any:
    """The same random batches for both."""
    torch: Any = import_module("torch")
    source = torch.Generator().manual_seed(SEED)
    while True:
        ids = torch.randint(0, vocabulary, (BATCH, LENGTH + 1), generator=source)
        yield ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def _started(case: Case, sites: str) -> judge.Start:
    """Torchtitan's own start, and its first weights."""
    sys.path.insert(0, f"{sites}/{case.version}")
    os.environ.setdefault("LOCAL_RANK", "0")
    torch: Any = import_module("torch")
    with contextlib.redirect_stdout(io.StringIO()):
        import_module("torchtitan.train")
        judge.pretend_gpu()
        _untie(case)
        start = judge.Start(case.text(), case.ranks)
        list(start.stages())
    torch.manual_seed(SEED)
    start.model.to_empty(device="cpu")
    with torch.no_grad():
        start.model.init_weights(buffer_device=None)
    return start


def _untie(case: Case) -> None:
    """Give Qwen's debug model a head of its own: trials refuse tied ones."""
    if case.model == "qwen3":
        specs = import_module("torchtitan.protocols.train_spec")
        flavors = specs.get_train_spec(case.model).model_args
        flavors["debugmodel"].enable_weight_tying = False


def by_trainer(case: Case, sites: str) -> dict[str, Any]:
    """Two steps of torchtitan's own model."""
    start = _started(case, sites)
    model, training = start.model, start.config.training
    clip: Any = import_module("torch.nn.utils").clip_grad_norm_
    weights = None
    if case.ranks == 1:
        weights = {k: v.detach().clone() for k, v in model.named_parameters()}
    loss_of = start.spec.build_loss_fn(start.config)
    optimizer = _optimizer(model, start.config)
    named = dict(model.named_parameters())
    data = batches(named["tok_embeddings.weight"].shape[0])
    count = case.accumulated
    over = BATCH * LENGTH if case.version == "0.2.2" else 1  # its loss is a sum

    def step(enter: Any) -> float:
        total = 0.0
        for _ in range(count):
            tokens, labels = next(data)
            enter("forward")
            with start.autocast:
                logits = model(tokens)
                loss = loss_of(logits, labels) / over
            del logits
            enter("backward")
            (loss / count).backward()
            total += loss.item() / count
        clip(model.parameters(), training.max_norm)
        enter("optimizer")
        optimizer.step()
        start.converters.post_optimizer_hook(model)
        optimizer.zero_grad()
        return total

    losses, counts, peaks = counted(step)
    return {"losses": losses, "counts": counts, "peaks": peaks, "weights": weights}


def _optimizer(model: Any, config: Any) -> Any:
    """The optimizer at its first step of the warmup."""
    torch: Any = import_module("torch")
    return torch.optim.AdamW(
        model.parameters(),
        lr=config.optimizer.lr / config.lr_scheduler.warmup_steps,
        betas=(0.9, 0.95),
        weight_decay=config.optimizer.weight_decay,
    )


def as_trial(case: Case, weights: Any) -> dict[str, Any]:
    """Two steps of the built-in trial of the same config."""
    from fp8tune.runners.builtin.convert import build
    from fp8tune.runners.builtin.spec import from_job, from_json
    from fp8tune.runners.builtin.step import Training

    kind = trainer(f"torchtitan=={case.version}")
    text = case.text()
    if case.version == "0.1.0":  # whose vocabulary is the tokenizer's
        text = text.replace("[model]", '[model]\ntokenizer_path = "x/Llama-3.1-8B"')
    loaded = kind.load(tomllib.loads(text))
    job = kind.job(loaded, Target(world_size=case.ranks))
    job["tied_embeddings"] = False  # as _untie makes it
    given = from_job(job, device="cpu", dp_shard=job["shards"])._asdict()
    spec = from_json(json.loads(json.dumps(given)))
    model, _ = build(spec)
    if weights is not None:
        _copy(weights, model)

    class Marked(Training):
        """Says when a phase of the step begins."""

        enter: Any

        def _loss(self, *given: Any) -> Any:
            loss = super()._loss(*given)
            self.enter("backward")
            return loss

    def data() -> Iterator[Any]:
        for batch in batches(spec.vocab_size):
            training.enter("forward")
            yield batch

    training = Marked(model, spec, data())
    training.optimizer.register_step_pre_hook(lambda *_: training.enter("optimizer"))

    def step(enter: Any) -> float:
        training.enter = enter
        return training.step().loss

    losses, counts, peaks = counted(step)
    return {"losses": losses, "counts": counts, "peaks": peaks}


def _copy(weights: dict[str, Any], model: Any) -> None:
    """Give the trial's model torchtitan's weights."""
    torch: Any = import_module("torch")
    ours = {theirs: name for name, theirs in NAMES.items() if name != "head"}
    found = {}
    for name, value in weights.items():
        plain = name.replace("_checkpoint_wrapped_module.", "").replace(
            "_orig_mod.", ""
        )
        for theirs, mine in ours.items():
            part = "mlp" if theirs.startswith("feed") else "attention"
            plain = plain.replace(theirs, f"{part}.{mine}")
        plain = plain.replace("tok_embeddings.", "embedding.")
        plain = plain.replace("output.", "output_head.proj.")
        found[plain] = value
    with torch.no_grad():
        for name, weight in model.named_parameters():
            plain = name.replace("_checkpoint_wrapped_module.", "")
            weight.copy_(found.pop(plain))
    if found:
        raise ValueError(f"not in the trial: {json.dumps(sorted(found))}")


if __name__ == "__main__":
    sys.exit(main())
