"""Live memory of two steps of NeMo Automodel's recipe, measured on the CPU.

``PYTHON -m benchmarks.automodel.step CHECKOUT < cases.jsonl`` needs a Python with
torch, torchao, transformers, mlflow, wandb and torchdata, and this repository on its
path. An input line is a case: ``family``, ``sizes`` for its config, ``weights``
(``float32`` or ``bfloat16``), ``ranks``, ``batch``, ``length``, ``accumulated``,
``ac``, and optionally ``fp8``, ``optimizer`` and ``distributed``, which are laid over
these sections. Each rank is a process of its own, joined by gloo. An output line adds
``peaks``, the most bytes that were alive on rank 0 in each phase, and ``releases`` of
the packages.

Set-up, model, FSDP2, loss and training loop are those of
TrainFinetuneRecipeForNextTokenPrediction. It asks for a GPU in a few places, where it
gets the CPU, with FP8 products, and Triton is hidden from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from benchmarks.hugging_face.step import ADDRESS, STEPS, measured

KINDS = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "mistral": "Mistral"}
"""What transformers' classes of a family are called."""

PACKAGES = ("torch", "torchao", "transformers")
RECIPES = "nemo_automodel.recipes.llm.train_ft"


def main() -> int:
    """Measure the cases on standard input."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # forks would wait for others
    sys.modules["triton"] = None  # type: ignore[assignment]
    sys.path.insert(0, sys.argv[1])
    with contextlib.redirect_stdout(sys.stderr):
        on_cpu(import_module("torch"))
        import_module(RECIPES)
        _compile_norms(import_module("torch"))
    releases = {name: metadata.version(name) for name in PACKAGES}
    for line in sys.stdin:
        case = json.loads(line)
        found = measured(case, _rank, "fork")  # with what is imported and compiled
        print(json.dumps(case | {"releases": releases} | found), flush=True)
    return 0


def recipe(case: dict[str, Any], folder: str) -> dict[str, Any]:
    """The recipe of a case, as its YAML file says it."""
    kind = KINDS[case["family"]]
    found: dict[str, Any] = {
        "recipe": "TrainFinetuneRecipeForNextTokenPrediction",
        "step_scheduler": {
            "global_batch_size": case["batch"] * case["accumulated"] * case["ranks"],
            "local_batch_size": case["batch"],
            "max_steps": STEPS,
        },
        "dist_env": {"backend": "gloo"},
        "model": {
            "_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_config",
            "attn_implementation": "sdpa",
            "use_liger_kernel": False,
            "torch_dtype": case["weights"],
            "config": case["sizes"]
            | {
                "_target_": f"transformers.{kind}Config",
                "architectures": [f"{kind}ForCausalLM"],
            },
        },
        "distributed": {"strategy": "fsdp2", "activation_checkpointing": case["ac"]}
        | case.get("distributed", {}),
        "checkpoint": {"enabled": False, "checkpoint_dir": folder},
        "loss_fn": {
            "_target_": "nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy"
        },
        "dataset": {
            "_target_": "nemo_automodel.components.datasets.llm.mock_iterable_dataset."
            "MockIterableDataset",
            "vocab_size": case["sizes"]["vocab_size"],
            "seq_len": case["length"],
            "batch_size": case["batch"],
            "num_samples": 10_000,
        },
        "dataloader": {"_target_": "torch.utils.data.DataLoader", "batch_size": None},
        "optimizer": {"_target_": "torch.optim.AdamW", "lr": 1e-4}
        | case.get("optimizer", {"fused": True}),
    }
    return found | ({"fp8": case["fp8"]} if "fp8" in case else {})


def _rank(case: dict[str, Any], rank: int, folder: str, pipe: Any) -> None:
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": case["ranks"]}
    os.environ.update(ADDRESS | {name: str(value) for name, value in places.items()})
    with contextlib.redirect_stdout(sys.stderr):
        live = import_module("tests.support.live_bytes").LiveBytes("init")
        if rank:
            _train(case, f"{folder}/{rank}", lambda _: None)
            return
        with live:
            _train(case, f"{folder}/{rank}", live.enter)
        pipe.send({"peaks": live.peaks})


def on_cpu(torch: Any) -> None:
    """Answer with the CPU where Automodel asks for the current GPU."""
    model: Any = import_module("nemo_automodel._transformers.auto_model")
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.reset_peak_memory_stats = lambda: None

    class CpuTorch:
        """PyTorch, whose devices are the CPU."""

        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

        @staticmethod
        def device(*_: Any) -> Any:
            return torch.device("cpu")

    model.torch = CpuTorch()
    fp8: Any = import_module("nemo_automodel.components.quantization.fp8")
    fp8._has_cuda_capability = lambda *_: True


def _compile_norms(torch: Any) -> None:
    """Compile Automodel's norm once for all cases, forward and backward."""
    functorch: Any = import_module("torch._functorch.config")
    models: Any = import_module("nemo_automodel.components.models.common.utils")
    with functorch.patch(force_non_lazy_backward_lowering=True):
        for dtype in (torch.bfloat16, torch.float32):
            norm = models.Float32RMSNorm(256, dtype=dtype)
            norm(torch.zeros(2, 128, 256, dtype=dtype, requires_grad=True))


def _train(case: dict[str, Any], folder: str, enter: Any) -> None:
    """Train by the recipe, and say which phase begins."""
    os.makedirs(folder)
    path = Path(folder) / "recipe.yaml"
    path.write_text(json.dumps(recipe(case, folder)), encoding="utf-8")
    module: Any = import_module(RECIPES)
    loader: Any = import_module("nemo_automodel.components.config.loader")
    run = module.TrainFinetuneRecipeForNextTokenPrediction(
        loader.load_yaml_config(str(path))
    )
    run.setup()
    forward, loss = run._forward_backward_step, module.calculate_loss
    wait = run.checkpointer.maybe_wait_for_staging

    def forwards(*given: Any, **named: Any) -> None:
        enter("forward")
        forward(*given, **named)

    def losses(*given: Any, **named: Any) -> Any:
        found = loss(*given, **named)
        enter("backward")
        return found

    def steps() -> None:
        wait()
        enter("optimizer")

    run._forward_backward_step = forwards
    module.calculate_loss = losses
    run.checkpointer.maybe_wait_for_staging = steps
    run.run_train_validation_loop()


if __name__ == "__main__":
    sys.exit(main())
