"""What torchao's FP8 does with weights that bitsandbytes quantized.

``TRAINER_PYTHON -m tools.accelerate.quantized`` loads a small Llama in 4 and in 8
bits, with and without LoRA, converts it as Accelerate does, and prints how far the
logits are from those of the bf16 model, or the error. TRAINER_PYTHON has accelerate,
transformers, torchao, bitsandbytes and peft; no GPU is needed.
"""

from __future__ import annotations

import tempfile
import warnings
from importlib import import_module
from typing import Any

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 128,
}


def main() -> None:
    """Print one line for each kind of weights, with and without LoRA."""
    warnings.simplefilter("ignore")
    torch, transformers = import_module("torch"), import_module("transformers")
    peft, ao = import_module("peft"), import_module("accelerate.utils.ao")
    torch.manual_seed(0)
    rows = torch.arange(32).reshape(1, 32)
    llama = transformers.LlamaForCausalLM
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model = llama(transformers.LlamaConfig(**SIZES)).to(torch.bfloat16)
        model.save_pretrained(folder)
        expected = model(input_ids=rows).logits

        def off(other: Any) -> str:
            try:
                found = other(input_ids=rows).logits
            except RuntimeError as error:
                return str(error)[:80]
            return f"logits off by {(found - expected).norm() / expected.norm():.1%}"

        for bits in (4, 8):
            config = transformers.BitsAndBytesConfig(**{f"load_in_{bits}bit": True})
            options = {"quantization_config": config, "device_map": "cpu"}
            for lora in (False, True):
                other = llama.from_pretrained(folder, dtype=torch.bfloat16, **options)
                if lora:
                    adapter = peft.LoraConfig(target_modules="all-linear", r=16)
                    other = peft.get_peft_model(other, adapter)
                before = off(other)
                ao.convert_model_to_fp8_ao(other)
                name = f"{bits} bits{', LoRA' if lora else ''}"
                print(f"{name}: {before}; after the conversion: {off(other)}")


if __name__ == "__main__":
    main()
