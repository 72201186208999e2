"""Single names of the jobs of configs."""

from collections.abc import Callable
from typing import Any

import pytest

VLM = "[vision_encoder]\n{encoder}\n[adapter]\n{adapter}\n[vlm]\n{vlm}\n"


@pytest.fixture
def value(job) -> Callable[[str, str], Any]:
    """One name of the job of a config, None if unknown."""

    return lambda name, text: job(text).find(name)


@pytest.fixture
def vlm_value(value) -> Callable[..., Any]:
    """One name of the job of a VLM config by its sections, None if unknown."""

    def find(
        name: str, vlm: str = "", encoder: str = "", adapter: str = "", rest: str = ""
    ) -> Any:
        text = VLM.format(encoder=encoder, adapter=adapter, vlm=vlm) + rest
        return value(f"vlm_{name}", text)

    return find
