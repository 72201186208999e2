"""Live memory of two steps of transformers' Trainer, measured on the CPU.

``python -m benchmarks.hugging_face.step < cases.jsonl`` needs a Python with torch,
transformers and accelerate, and this repository on its path. An input line is a case:
``family`` (the ``model_type``), ``sizes`` for its config, ``weights`` (``float32`` or
``bfloat16``, as the script loads them), ``mode`` (``ddp``, ``fsdp1``, ``fsdp2``,
``zero1`` to ``zero3``), ``ranks``, ``batch``, ``length``, ``accumulated``, ``ac``,
``optimizer``, ``precision`` (``fp8`` for torchao's), and for ZeRO ``bucket``. Each rank
is a process of its own, joined by gloo. An output line adds the release of
``accelerate``, and ``peaks``: the most bytes that were alive on rank 0 in each phase.

The model, the Trainer and Accelerate are the real ones. To reach FSDP on the CPU, the
process group says that it is one of GPUs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib import import_module
from multiprocessing import get_context
from typing import Any

STEPS = 2
"""The first step allocates the optimizer's state, the second has it."""

FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
    "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
    "FSDP_USE_ORIG_PARAMS": "true",
    "FSDP_BACKWARD_PREFETCH": "BACKWARD_PRE",
    "FSDP_SHARDING_STRATEGY": "FULL_SHARD",
}


FP8 = {
    "ACCELERATE_MIXED_PRECISION": "fp8",
    "ACCELERATE_FP8_BACKEND": "AO",
    "ACCELERATE_FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER": "false",
}
"""What ``accelerate launch`` sets for FP8 by torchao."""

ADDRESS = {
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29512",
    "GLOO_SOCKET_IFNAME": "lo",
}


def main() -> int:
    """Measure the cases on standard input."""
    release = import_module("accelerate").__version__
    for line in sys.stdin:
        case = json.loads(line)
        found = {"accelerate": release, **measured(case)}
        print(json.dumps(case | found), flush=True)
    return 0


def measured(
    case: dict[str, Any], train: Any = None, start: str = "spawn"
) -> dict[str, Any]:
    """The peaks of a case, measured in processes of their own, which ``train``."""
    context: Any = get_context(start)
    here, there = context.Pipe(False)
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            context.Process(target=train or _rank, args=(case, rank, folder, there))
            for rank in range(case["ranks"])
        ]
        for worker in workers:
            worker.start()
        there.close()
        try:
            found: dict[str, Any] = here.recv()
        finally:
            for worker in workers:
                worker.join(60)
                worker.kill()
    return found


def _rank(case: dict[str, Any], rank: int, folder: str, pipe: Any) -> None:
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    sharded = case["mode"].startswith("fsdp")
    if case.get("precision") == "fp8":
        os.environ.update(FP8)
    if case["mode"].startswith("zero"):
        os.environ["DS_ACCELERATOR"] = "cpu"
    if case["ranks"] > 1 or case["mode"] != "ddp":
        _join(case["ranks"], rank, folder, as_gpus=case["mode"] != "ddp")
    if sharded:
        version = case["mode"].removeprefix("fsdp")
        strategy = {"FSDP_SHARDING_STRATEGY": case.get("strategy", "FULL_SHARD")}
        os.environ.update(FSDP | strategy | {"FSDP_VERSION": version})
        os.environ["FSDP_RESHARD_AFTER_FORWARD"] = (
            "true" if version == "2" else strategy["FSDP_SHARDING_STRATEGY"]
        )
    live = import_module("tests.support.live_bytes").LiveBytes("init")
    if rank:
        _train(case, folder, lambda _: None)
        return
    with live:
        _train(case, folder, live.enter)
    pipe.send({"peaks": live.peaks})


def _join(ranks: int, rank: int, folder: str, *, as_gpus: bool) -> None:
    """Join a process group, which passes for one of GPUs if asked to."""
    torch, state = import_module("torch"), import_module("accelerate.state")
    places = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank)}
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    os.environ.update(places | threads | ADDRESS)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/group", rank=rank, world_size=ranks
    )
    if not as_gpus:
        return
    kind = import_module("accelerate.utils").DistributedType.MULTI_GPU

    def device(self: Any) -> None:
        self.device = torch.device("cpu")

    state.PartialState._prepare_backend = lambda *_, **__: ("gloo", kind)
    state.PartialState.set_device = device


def _zero(case: dict[str, Any]) -> dict[str, Any] | None:
    """DeepSpeed's config, ``None`` without it; ``bucket`` is the size of its buckets.

    The Trainer fills in what is "auto".
    """
    if not case["mode"].startswith("zero"):
        return None
    auto = "auto"
    stage = int(case["mode"].removeprefix("zero"))
    zero: dict[str, Any] = {
        "stage": stage,
        "overlap_comm": False,
        "contiguous_gradients": True,
    }
    names = ["reduce_bucket_size", "allgather_bucket_size"]
    if stage == 3:
        names = ["reduce_bucket_size", "stage3_prefetch_bucket_size"]
        zero["stage3_param_persistence_threshold"] = auto
    return {
        "train_micro_batch_size_per_gpu": auto,
        "gradient_accumulation_steps": auto,
        "gradient_clipping": auto,
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": auto},
        "zero_optimization": zero | dict.fromkeys(names, case.get("bucket", auto)),
    }


def _train(case: dict[str, Any], folder: str, enter: Any) -> None:
    """Train with the Trainer, and say which phase begins."""
    torch, transformers = import_module("torch"), import_module("transformers")
    torch.manual_seed(0)
    kind = transformers.AutoConfig.for_model(case["family"], **case["sizes"])
    model = transformers.AutoModelForCausalLM.from_config(kind)
    model = model.to(getattr(torch, case["weights"]))
    ids = torch.randint(0, kind.vocab_size, (case["length"],))
    rows = [{"input_ids": ids, "labels": ids}] * (
        STEPS * case["batch"] * case["accumulated"] * case["ranks"]
    )
    given = transformers.TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        max_steps=STEPS,
        per_device_train_batch_size=case["batch"],
        gradient_accumulation_steps=case["accumulated"],
        gradient_checkpointing=case["ac"],
        optim=case["optimizer"],
        bf16=case.get("precision") != "fp8",
        dataloader_pin_memory=False,
        deepspeed=_zero(case),
    )
    phases = {
        "on_step_begin": "forward",
        "on_substep_end": "forward",
        "on_pre_optimizer_step": "optimizer",
    }
    calls = {
        name: (lambda *_, phase=phase, **__: enter(phase))
        for name, phase in phases.items()
    }
    callback = type("Phases", (transformers.TrainerCallback,), calls)
    trainer = transformers.Trainer(
        model, given, train_dataset=rows, callbacks=[callback()]
    )
    del model
    backward = trainer.accelerator.backward

    def backwards(*given: Any, **named: Any) -> None:
        enter("backward")
        backward(*given, **named)

    trainer.accelerator.backward = backwards
    trainer.train()


if __name__ == "__main__":
    sys.exit(main())
