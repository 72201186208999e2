"""A fake checkout that equals its schema, and one edit at a time."""

import sys
from pathlib import Path

from tests.each import each
from tools.kempnerforge.drift import main

SOURCE = """
from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from kempnerforge.config.registry import registry

PATTERNS: dict[str, list[str]] = {"model": ["model", "model.*"]}
_SPLITS = ("train", "validation")


class Norm(StrEnum):
    rms = "rmsnorm"
    layer = "layernorm"


@dataclass(frozen=True)
class FreezeSpec:
    module: str
    frozen: bool = True


@dataclass
class ModelConfig:
    dim: int = 4096
    heads: int | None = None
    norm: Norm = Norm.rms
    precision: Literal["bf16", "fp8"] = "bf16"
    backend: str = "auto"
    adapter: str = "linear"
    split: str = "train"
    betas: tuple[float, float] = (0.9, 0.95)
    freeze: list[FreezeSpec] = field(default_factory=lambda: [FreezeSpec("model")])
    patterns: dict[str, list[str]] = field(
        default_factory=lambda: {
            **{k: list(v) for k, v in PATTERNS.items()},
            "head": ["head"],
        }
    )

    def __post_init__(self) -> None:
        import kempnerforge.adapter

        registered = tuple(registry.list_adapters())
        if self.adapter not in registered:
            raise ValueError
        if self.dim > 0:
            if self.backend not in ("auto", "flash"):
                raise ValueError
        if self.split not in _SPLITS:
            raise ValueError


@dataclass
class JobConfig:
    model: ModelConfig = field(default_factory=ModelConfig)
    spec: FreezeSpec | None = None
"""

REGISTRY = """
class Registry:
    def __init__(self):
        self.adapters, self.configs = {}, {}

    def register_adapter(self, name):
        return lambda made: self.adapters.setdefault(name, made)

    def register_vlm_config(self, name):
        return lambda made: self.configs.setdefault(name, made)

    def list_adapters(self):
        return list(self.adapters)

    def list_vlm_configs(self):
        return list(self.configs)

    def get_vlm_config(self, name):
        return self.configs[name]


registry = Registry()
"""

ADAPTERS = """
from kempnerforge.config.registry import registry


@registry.register_adapter("linear")
def linear(): ...
"""

SCHEMA = """
[sections]
model = "ModelConfig"
spec = "FreezeSpec | None"

[classes.FreezeSpec]
module = { type = "str", required = true }
frozen = { type = "bool", default = true }

[classes.ModelConfig]
dim = { type = "int", default = 4096, above = 0 }
heads = { type = "int | None", overlay = 32 }
norm = { type = "Norm", default = "rmsnorm", allowed = ["layernorm", "rmsnorm"] }
precision = { type = "Literal", default = "bf16", allowed = ["bf16", "fp8"] }
backend = { type = "str", default = "auto", allowed = ["auto", "flash"] }
adapter = { type = "str", default = "linear", allowed = ["linear"] }
split = { type = "str", default = "train", allowed = ["train", "validation"] }
betas = { type = "tuple[float, float]", default = [0.9, 0.95] }
freeze = { type = "list[FreezeSpec]", default = [{ module = "model", frozen = true }] }

[classes.ModelConfig.patterns]
type = "dict[str, list[str]]"
default = { model = ["model", "model.*"], head = ["head"] }
"""


def drift(folder: Path, old: str = "", new: str = "", adapters: str = ADAPTERS) -> int:
    assert old in SOURCE
    config = folder / "kempnerforge" / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "all.py").write_text(SOURCE.replace(old, new) if old else SOURCE)
    (config / "registry.py").write_text(REGISTRY)
    (config.parent / "adapter.py").write_text(adapters)
    (folder / "schema.toml").write_text(SCHEMA)
    path = list(sys.path)
    try:
        return main([str(folder), "--schema", str(folder / "schema.toml")])
    finally:
        sys.path[:] = path
        for name in [n for n in sys.modules if n.partition(".")[0] == "kempnerforge"]:
            del sys.modules[name]


def test_no_drift(tmp_path, capsys):
    assert drift(tmp_path) == 0
    assert capsys.readouterr().out == "no drift: 2 classes, 12 fields\n"


@each(
    ("old", "new", "line"),
    [
        ("dim: int = 4096", "dim: int = 2048", "ModelConfig.dim: default 4096 -> 2048"),
        (
            "    heads: int | None = None\n",
            "",
            "ModelConfig.heads: field is gone from the trainer",
        ),
        (
            "    heads: int | None = None\n",
            "    heads: int | None = None\n    depth: int = 1\n",
            "ModelConfig.depth: field is new in the trainer",
        ),
        (
            '    layer = "layernorm"\n',
            "",
            "ModelConfig.norm: 'layernorm' is no longer allowed",
        ),
        (
            'Literal["bf16", "fp8"]',
            'Literal["bf16", "fp8", "mxfp8"]',
            "ModelConfig.precision: 'mxfp8' is newly allowed",
        ),
        (
            '("auto", "flash")',
            '("auto",)',
            "ModelConfig.backend: 'flash' is no longer allowed",
        ),
        (
            "        if self.split not in _SPLITS:\n            raise ValueError\n",
            "",
            "ModelConfig.split: allowed ('train', 'validation') -> None",
        ),
        (
            '{"model": ["model", "model.*"]}',
            '{"model": ["model"]}',
            "ModelConfig.patterns: default "
            "{'model': ['model', 'model.*'], 'head': ['head']} -> "
            "{'model': ['model'], 'head': ['head']}",
        ),
        (
            "    spec: FreezeSpec | None = None\n",
            "",
            "spec: section is gone from the trainer",
        ),
        (
            "@dataclass\nclass Job",
            "@dataclass\nclass Video:\n    fps: int = 1\n\n\n@dataclass\nclass Job",
            "Video: class is new in the trainer",
        ),
    ],
)
def test_drift(tmp_path, capsys, old, new, line):
    assert drift(tmp_path, old, new) == 1
    assert line in capsys.readouterr().out.splitlines()


def test_registered_names(tmp_path, capsys):
    more = ADAPTERS + ADAPTERS.replace("linear", "mlp")
    assert drift(tmp_path, adapters=more) == 1
    out = capsys.readouterr().out
    assert out == "ModelConfig.adapter: 'mlp' is newly allowed\n"


def test_variants(tmp_path, capsys):
    old = "@dataclass\nclass ModelConfig"
    new = f'@registry.register_vlm_config("mot")\n{old}'
    assert drift(tmp_path, old, new) == 1
    out = capsys.readouterr().out
    assert out == "variants: classes {} -> {'mot': 'ModelConfig'}\n"


def test_no_checkout(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("schema_drift: no config classes in ")
