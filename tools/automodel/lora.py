"""What Automodel's FP8 leaves of LoRA's adapters.

``TRAINER_PYTHON -m tools.automodel.lora`` puts adapters on the linears of a small
Llama and converts them, in the order and with the functions of Automodel, and counts
the adapters that are left. TRAINER_PYTHON has nemo_automodel and torchao. No GPU is
needed: FP8 is emulated, and Triton's kernels are not made.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from tools.accelerate.quantized import SIZES


def main() -> None:
    """Print how many adapters are there without FP8 and with it."""
    warnings.simplefilter("ignore")
    triton: Any = import_module("triton")
    triton.autotune = triton.heuristics = lambda *_, **__: lambda kernel: kernel
    torch, transformers = import_module("torch"), import_module("transformers")
    lora = import_module("nemo_automodel.components._peft.lora")
    fp8 = import_module("nemo_automodel.components.quantization.fp8")
    for enabled in (False, True):
        config = transformers.LlamaConfig(**SIZES)
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        options = {"target_modules": ["*_proj"], "dim": 16, "use_triton": False}
        lora.apply_lora_to_linear_modules(model, lora.PeftConfig(**options))
        if enabled:
            settings = fp8.FP8Config(enabled=True, emulate=True)
            model = fp8.apply_fp8_to_model(model, config=settings)
        trained = [n for n, p in model.named_parameters() if p.requires_grad]
        name = "with" if enabled else "without"
        print(f"{name} FP8: {len(trained)} matrices of adapters to train")


if __name__ == "__main__":
    main()
