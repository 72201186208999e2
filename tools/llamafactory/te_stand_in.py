"""A stand-in for Transformer Engine, which needs a GPU to be built.

It has the names that Accelerate and LLaMA-Factory look up. Its layers are torch's, so
that it shows whether linears are replaced, and nothing about FP8 itself. ``entered`` of
its ``pytorch`` lists the FP8 autocasts that a run entered, with the recipe's options.
"""

from __future__ import annotations

import sys
from pathlib import Path

FILES = {
    "transformer_engine/__init__.py": "from . import common, pytorch",
    "transformer_engine/common/__init__.py": "",
    "transformer_engine/common/recipe.py": """
class Format:
    HYBRID = E4M3 = E5M2 = None
class DelayedScaling:
    def __init__(self, **options): self.options = options
class MXFP8BlockScaling(DelayedScaling): pass
""",
    "transformer_engine/pytorch/__init__.py": """
import contextlib, torch
from . import fp8
class Linear(torch.nn.Linear):
    def __init__(self, *sizes, params_dtype=None, **options):
        super().__init__(*sizes, dtype=params_dtype, **options)
class LayerNorm(torch.nn.LayerNorm): pass
entered = []
@contextlib.contextmanager
def fp8_autocast(enabled=True, fp8_recipe=None):
    entered.append((enabled, {k: str(v) for k, v in fp8_recipe.options.items()}))
    yield
""",
    "transformer_engine/pytorch/fp8.py": """
def check_fp8_support(): return False, ""
check_mxfp8_support = check_fp8_support
""",
    "transformer_engine-2.9.0.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: transformer-engine\nVersion: 2.9.0\n"
    ),
}


def install(folder: str) -> None:
    """Write the package to a folder, and let this process find it there."""
    for name, text in FILES.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    sys.path.insert(0, folder)
