"""How the installed transformers holds the experts of MoE models.

``TRAINER_PYTHON -m tools.axolotl.experts`` builds a small model of each family and
counts the linears and the 3-D parameters of its experts. FP8 by torchao converts
linears alone. Families of which neither is found are printed with two zeros.
"""

from __future__ import annotations

import sys
from importlib import import_module

FAMILIES = (
    *("mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "olmoe", "deepseek_v2"),
    *("deepseek_v3", "gpt_oss", "granitemoe", "glm4_moe", "phimoe", "jamba"),
    *("ernie4_5_moe", "hunyuan_v1_moe", "llama4_text", "minimax"),
)

SIZES = {
    **dict.fromkeys(("hidden_size", "intermediate_size", "moe_intermediate_size"), 64),
    **dict.fromkeys(("shared_expert_intermediate_size", "max_position_embeddings"), 64),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads"), 4),
    **dict.fromkeys(("num_hidden_layers", "num_experts_per_tok"), 2),
    **dict.fromkeys(("n_group", "topk_group", "decoder_sparse_step"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "v_head_dim", "head_dim"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim"), 8),
    "vocab_size": 128,
    "first_k_dense_replace": 0,
}


def main() -> int:
    """Print one line for each family."""
    torch, transformers = import_module("torch"), import_module("transformers")
    print(
        f"transformers {transformers.__version__}: linears, 3-D parameters of experts"
    )
    for family in FAMILIES:
        config = transformers.AutoConfig.for_model(family)
        for name, size in SIZES.items():
            if hasattr(config, name):
                setattr(config, name, size)
        config.pad_token_id = None
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config)
        experts = [(n, m) for n, m in model.named_modules() if ".experts" in n]
        linears = sum(isinstance(m, torch.nn.Linear) for _, m in experts)
        named = (p for n, p in model.named_parameters() if ".experts" in n)
        print(f"{family}: {linears}, {sum(p.dim() == 3 for p in named)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
