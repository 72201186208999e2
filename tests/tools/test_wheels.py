"""Schemas from wheels: classes are parsed, never run."""

import tomllib
import zipfile

import pytest

from tools.torchtitan.schema import lines
from tools.torchtitan.wheels import Field, Wheel

SOURCE = '''
from typing import Literal
raise SystemExit("never run")

@dataclass
class Recipe:
    name: Literal["a", "b"] | None = None
    """What a field says about itself is left out."""
    fqns: list[str] = field(default_factory=lambda: ["output"])

@dataclass
class Training:
    steps: int = 10
    max_norm: float | int = 1.0
    parts: list[Literal["x"]] = field(default_factory=list)
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self):
        assert self.steps

@dataclass
class JobConfig:
    training: Training = field(default_factory=Training)

class ConfigManager:
    pass
'''
CLASSES = {
    "Recipe": {
        "name": Field("Literal | None", None, ("a", "b")),
        "fqns": Field("list[str]", ["output"]),
    },
    "Training": {
        "steps": Field("int", 10),
        "max_norm": Field("float", 1.0),
        "parts": Field("list[str]", []),
        "recipe": Field("Recipe", "Recipe"),
    },
    "JobConfig": {"training": Field("Training", "Training")},
}


@pytest.fixture
def wheel(tmp_path):
    with zipfile.ZipFile(tmp_path / "torchtitan-9.0-py3-none-any.whl", "w") as archive:
        archive.writestr("torchtitan/config/job_config.py", SOURCE)
    return Wheel(tmp_path, "9.0")


def test_classes_of_a_wheel(wheel):
    assert wheel.config_classes() == CLASSES


def test_a_schema_has_what_the_wheel_and_our_words_say():
    keys = {"training.steps": {"doc": "Steps."}, "training.recipe.name": {"aka": ["r"]}}
    words = {"job": {"max_steps": "training.steps", "gone": "a.b"}, "keys": keys}
    schema = tomllib.loads("\n".join(lines("9.0", CLASSES, words)))
    assert schema["title"] == "torchtitan 9.0"
    assert schema["sections"] == {"training": "Training"}
    assert schema["job"] == {"max_steps": "training.steps"}
    assert schema["classes"] == {
        "Recipe": {
            "name": {"type": "Literal | None", "allowed": ["a", "b"], "aka": ["r"]},
            "fqns": {"type": "list[str]", "default": ["output"]},
        },
        "Training": {
            "steps": {"type": "int", "default": 10, "doc": "Steps."},
            "max_norm": {"type": "float", "default": 1.0},
            "parts": {"type": "list[str]", "default": []},
            "recipe": {"type": "Recipe"},
        },
    }
