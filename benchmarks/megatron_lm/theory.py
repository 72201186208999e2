"""Compare ``estimate`` with Megatron-LM's own theory of its memory.

``PYTHON -m benchmarks.megatron_lm.theory CHECKOUT --count 400 --seed 1`` draws flags,
lets Megatron-LM's parser take them, and asks its ``report_theoretical_memory`` for the
bytes of weights and optimizer, and of activations. PYTHON has torch, triton and numpy;
no GPU is needed. It exits with 1 if any case differs by more than a thousandth.

Both speak of the first pipeline stage. Weights and optimizer are compared of all cases.
The theory leaves out biases of linears and tables of positions, so none are drawn.
Activations are compared where the theory is meant for them: dense layers with sequence
parallelism and selective recomputation, an FFN without gate, dropout, and heads whose
sizes add up to the hidden size. The theory counts the ids and the dropout of the
embedding, and of logits the copy in fp32 alone. It shards no optimizer over
context-parallel ranks, which Megatron-LM does, and has interleaved stages wait for more
micro-batches than a step has; neither is drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fp8tune.facts.memory import GIB
from fp8tune.formats.bash.document import parse
from fp8tune.job import Job, Target
from fp8tune.trainers.megatron_lm.memory import Peak
from fp8tune.trainers.trainer import trainer
from tests.support.verdicts import megatron_script
from tools.generate import words_of
from tools.megatron_lm.source import module

STATE = ("weights", "gradients", "optimizer state")
CLOSE = 1e-3
"""How far two figures may differ [ratio]."""


def cases(count: int, seed: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield flags that Megatron-LM accepts, and the number of GPUs."""
    draw = random.Random(seed)  # noqa: S311
    for number in range(count):
        tp, pp = draw.choice((1, 2, 4)), draw.choice((1, 2, 4))
        heads = draw.choice((8, 16, 32))
        layers, chunks = pp * draw.choice((2, 4, 8)), draw.choice((1, 1, 2))
        micro, accumulation = draw.choice((1, 2, 4)), draw.choice((8, 16))
        compared = number % 2 == 0
        ranks = draw.choice((2, 4, 8))
        flags: dict[str, Any] = {
            "bf16": True,
            "num-layers": layers,
            "hidden-size": heads * draw.choice((64, 128)),
            "num-attention-heads": heads,
            "seq-length": draw.choice((1024, 4096)),
            "max-position-embeddings": 4096,
            "position-embedding-type": "rope",
            "disable-bias-linear": True,
            "vocab-size": draw.choice((32000, 50257, 128256)),
            "tokenizer-type": "NullTokenizer",
            "normalization": draw.choice(("RMSNorm", "LayerNorm")),
            "micro-batch-size": micro,
            "global-batch-size": micro * accumulation * ranks,
            "tensor-model-parallel-size": tp,
            "pipeline-model-parallel-size": pp,
            "train-iters": 10,
            "lr": 1e-4,
        }
        if draw.random() < 0.7:
            flags["use-distributed-optimizer"] = True
        if draw.random() < 0.5:
            flags["untie-embeddings-and-output-weights"] = True
        if tp > 1:
            flags["sequence-parallel"] = True
        if chunks > 1 and pp > 1:
            flags["num-layers-per-virtual-pipeline-stage"] = layers // pp // chunks
        if compared:
            flags["recompute-granularity"] = "selective"
            flags["ffn-hidden-size"] = draw.choice((3, 4)) * flags["hidden-size"]
        else:
            flags |= _wider(draw, heads, ranks, tp)
        yield flags, tp * pp * ranks


def _wider(draw: random.Random, heads: int, ranks: int, tp: int) -> dict[str, Any]:
    """Return flags of models of which only weights and optimizer are compared."""
    found: dict[str, Any] = {}
    if draw.random() < 0.5:
        found |= {"group-query-attention": True, "num-query-groups": heads // 2}
    if draw.random() < 0.5:
        found["swiglu"] = True
    if draw.random() < 0.3:
        found["kv-channels"] = 96
    if draw.random() < 0.5:
        ep = draw.choice([n for n in (1, 2, 4) if ranks % n == 0])
        found |= {
            "num-experts": draw.choice((8, 16)),
            "moe-ffn-hidden-size": draw.choice((512, 1408)),
            "moe-token-dispatcher-type": "alltoall",
            "expert-model-parallel-size": ep,
            "expert-tensor-parallel-size": draw.choice((1, tp)),
        }
        if draw.random() < 0.5:
            found["moe-shared-expert-intermediate-size"] = 1024
        if draw.random() < 0.5:
            found["moe-layer-freq"] = 2
    return found


def theory(
    modules: tuple[Any, Any], flags: list[str], gpus: int
) -> tuple[float, float]:
    """Return Megatron-LM's bytes of weights and optimizer, and of activations [GiB]."""
    arguments, memory = modules
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    os.environ["WORLD_SIZE"] = str(gpus)
    sys.argv = ["pretrain_gpt.py", *flags]
    with contextlib.redirect_stdout(io.StringIO()):
        args = arguments.parse_args()
        arguments.validate_args(args)
        unit = args.make_vocab_size_divisible_by * args.tensor_model_parallel_size
        args.padded_vocab_size = -(-args.vocab_size // unit) * unit
        micro = args.global_batch_size // args.data_parallel_size
        batches = micro // args.micro_batch_size
        state = memory.compute_weight_and_optimizer_memory(args)
        kept = memory.compute_activation_memory(args, num_microbatches=batches)
    return state / GIB, kept / GIB


def ours(job: Job) -> tuple[float, float]:
    """Return the same of the estimate, as far as the theory counts it [GiB]."""
    peaks: dict[str, Peak] = job["memory_peaks"]
    first = peaks.get("first") or peaks[""]
    state = sum(first.parts[name] for name in STATE)
    tokens = job["block_tokens"]
    hidden, flight = job["hidden_size"], job["in_flight"]
    entry = tokens * (8 + hidden) / job["tp"] * flight
    kept = first.parts["activations"] + entry / GIB
    if job["pp"] == 1:
        kept += 4 * tokens * job["vocab_size"] / job["tp"] / GIB
        kept += 0 if "logits" in first.parts else 4 * tokens * hidden / job["tp"] / GIB
    return state, kept


def main() -> int:
    """Print what differs, and how much was compared."""
    parser = argparse.ArgumentParser(prog="benchmarks.megatron_lm.theory")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments = module(options.checkout)
    arguments.get_device_arch_version = lambda: 9
    from megatron.training import theoretical_memory_usage as memory

    known = trainer("megatron_lm")
    states, activations, different = 0, 0, 0
    for flags, gpus in cases(options.count, options.seed):
        given = words_of(flags)
        document = parse(megatron_script(given, gpus).encode())
        job = known.job(known.load(document.values), Target(world_size=gpus))
        theirs, mine = theory((arguments, memory), given, gpus), ours(job)
        compared = "recompute-granularity" in flags
        states += 1
        activations += compared
        for name, one, other in (
            ("weights and optimizer", theirs[0], mine[0]),
            *([("activations", theirs[1], mine[1])] if compared else ()),
        ):
            if not math.isclose(one, other, rel_tol=CLOSE):
                different += 1
                print(f"{name}: {one:.3f} GiB, here {other:.3f}: {' '.join(given)}")
    print(
        f"weights and optimizer of {states} runs, activations of {activations}: "
        f"{different} differ by more than {CLOSE:.1%}"
    )
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
