"""Whether FP8 linears compute where Axolotl's LoRA kernels are on.

``TRAINER_PYTHON -m tools.axolotl.lora`` puts adapters on all linears of a small
Llama, converts them as Accelerate does, with and without Axolotl's kernels, runs the
model once and counts the linears whose FP8 forward was called. TRAINER_PYTHON has
axolotl and what it needs. No GPU is needed: the one Triton kernel of a forward pass,
SwiGLU, is replaced by the same function in torch.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from tools.accelerate.quantized import SIZES

LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
KERNELS = ("lora_qkv_kernel", "lora_o_kernel", "lora_mlp_kernel")


def main() -> None:
    """Print how many linears are converted and how many of them compute."""
    warnings.simplefilter("ignore")
    torch, peft = import_module("torch"), import_module("peft")
    transformers = import_module("transformers")
    ao = import_module("accelerate.utils.ao")
    linear = import_module("torchao.float8.float8_linear").Float8Linear
    llama = import_module("transformers.models.llama.modeling_llama")
    called: list[Any] = []
    forward = linear.forward

    def counted(self: Any, rows: Any) -> Any:
        called.append(self)
        return forward(self, rows)

    linear.forward = counted
    for kernels in (False, True):
        config = transformers.LlamaConfig(**{**SIZES, "num_hidden_layers": 2})
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        options = {"target_modules": LINEARS, "r": 16, "task_type": "CAUSAL_LM"}
        model = peft.get_peft_model(model, peft.LoraConfig(**options))
        if kernels:
            patches: Any = import_module("axolotl.monkeypatch.lora_kernels")
            made: Any = import_module("axolotl.kernels.lora")
            made.swiglu_forward = lambda a, b: torch.nn.functional.silu(a) * b
            patches.get_attention_cls_from_config = lambda _: llama.LlamaAttention
            keys = import_module("axolotl.utils.dict").DictDefault(
                dict.fromkeys(KERNELS, True)
            )
            patches.patch_self_attn_lora(keys)
            patches.apply_lora_kernel_patches(model, keys)
        ao.convert_model_to_fp8_ao(model)
        called.clear()
        model.train()
        model(input_ids=torch.arange(32).reshape(1, 32))
        converted = sum(isinstance(each, linear) for each in model.modules())
        name = "with" if kernels else "without"
        print(f"{name} kernels: {len(called)} of {converted} FP8 linears compute")


if __name__ == "__main__":
    main()
