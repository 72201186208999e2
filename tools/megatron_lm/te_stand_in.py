"""A stand-in for Transformer Engine, which needs a GPU to be built.

It has the names that Megatron-LM looks up, with the version of a recent release. Its
linears hold weights and compute nothing. ``active`` of its ``pytorch`` says whether an
FP8 autocast is entered, and with which recipe.
"""

from __future__ import annotations

import sys
from pathlib import Path

VERSION = "2.14.0"

FILES = {
    "transformer_engine/__init__.py": (
        f"__version__ = {VERSION!r}\nfrom . import common, pytorch"
    ),
    "transformer_engine/common/__init__.py": "from . import recipe",
    "transformer_engine/common/recipe.py": """
class Format:
    HYBRID, E4M3, E5M2 = "hybrid", "e4m3", "e5m2"
class Recipe:
    def __init__(self, **options): self.options = options
class DelayedScaling(Recipe): pass
class Float8CurrentScaling(Recipe): pass
class Float8BlockScaling(Recipe): pass
class MXFP8BlockScaling(Recipe): pass
class NVFP4BlockScaling(Recipe): pass
class CustomRecipe(Recipe): pass
""",
    "transformer_engine/pytorch/__init__.py": """
import torch
from . import distributed, fp8, ops
from .fp8 import active, autocast, fp8_autocast, fp8_model_init, quantized_model_init
class Module(torch.nn.Module):
    def __init__(self, *sizes, **options):
        super().__init__()
        self.save_original_input = False
        if sizes: self.weight = torch.nn.Parameter(torch.empty(sizes[::-1]))
    def forward(self, *_, **__): raise NotImplementedError
class Linear(Module):
    def __init__(self, in_features, out_features, **options):
        super().__init__(in_features, out_features)
        self.in_features, self.out_features = in_features, out_features
        self.tp_size = 1
class LayerNormLinear(Linear): pass
class LayerNormMLP(Module): pass
class GroupedLinear(Module):
    def __init__(self, num_gemms, in_features, out_features, **options):
        super().__init__(in_features, out_features)
class LayerNorm(Module):
    def __init__(self, *_, **__): super().__init__()
    def forward(self, hidden): return hidden
class RMSNorm(LayerNorm): pass
class DotProductAttention(Module):
    def __init__(self, num_attention_heads, kv_channels, num_gqa_groups=None,
                 attention_dropout=0.0, qkv_format="sbhd", attn_mask_type="causal",
                 window_size=None, sequence_parallel=False, tp_size=1,
                 get_rng_state_tracker=None, tp_group=None, layer_number=None,
                 attention_type="self", cp_group=None, cp_global_ranks=None,
                 cp_stream=None, cp_comm_type="p2p", softmax_scale=None,
                 softmax_type="vanilla", **options):
        super().__init__()
class Fp8Padding(Module): pass
class Fp8Unpadding(Module): pass
""",
    "transformer_engine/pytorch/fp8.py": """
import contextlib
active = []
@contextlib.contextmanager
def fp8_autocast(enabled=True, fp8_recipe=None, fp8_group=None, recipe=None):
    active.append((fp8_recipe or recipe) if enabled else None)
    try: yield
    finally: active.pop()
autocast = fp8_autocast
@contextlib.contextmanager
def fp8_model_init(enabled=True, recipe=None, preserve_high_precision_init_val=False):
    yield
quantized_model_init = fp8_model_init
class FP8GlobalStateManager:
    @staticmethod
    def is_fp8_enabled(): return bool(active and active[-1])
""",
    "transformer_engine/pytorch/distributed.py": """
import contextlib
class CudaRNGStatesTracker:
    def __init__(self): self.states_ = {}
@contextlib.contextmanager
def activation_recompute_forward(activation_recompute=False, recompute_phase=False):
    yield
def checkpoint(function, *args, distribute_saved_activations=None,
               get_rng_state_tracker=None, tp_group=None, **kwargs):
    return function(*args, **kwargs)
""",
    "transformer_engine/pytorch/ops.py": """
class FusibleOperation: pass
class Sequential: pass
""",
    "transformer_engine/pytorch/float8_tensor.py": "class Float8Tensor: pass",
    "transformer_engine/pytorch/tensor/__init__.py": "class QuantizedTensor: pass",
    "transformer_engine/pytorch/router.py": """
fused_compute_score_for_moe_aux_loss = fused_moe_aux_loss = None
fused_topk_with_score_function = None
""",
    f"transformer_engine-{VERSION}.dist-info/METADATA": (
        f"Metadata-Version: 2.1\nName: transformer-engine\nVersion: {VERSION}\n"
    ),
}


def install(folder: str) -> None:
    """Write the package to a folder, and let this process find it there."""
    for name, text in FILES.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    sys.path.insert(0, folder)
