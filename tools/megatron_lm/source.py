"""The argument parser of a checkout of Megatron-LM.

It imports torch and triton; Transformer Engine and a GPU are not needed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMIT = "d98e8a64ddf34856e74b24714e3bedb2f5a39553"
"""The commit that was read: main of 2026-08-22, core 0.20.0 before its release."""

TAGS = tuple(f"core_v0.{minor}.0" for minor in (8, 9, 12, 13, 14, 15, 16, 17, 18, 19))
"""Releases whose flags are known too, by name alone."""


def module(checkout: Path) -> Any:
    """Return ``megatron.training.arguments`` of a checkout."""
    import typing_extensions

    os.environ.setdefault("NO_VCS_VERSION", "1")
    if not hasattr(typing, "override"):  # Python 3.11
        setattr(typing, "override", typing_extensions.override)  # noqa: B010
    sys.path.insert(0, str(checkout))
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        from megatron.training import arguments
    return arguments


def flags(checkout: Path) -> dict[str, argparse.Action]:
    """Return what each flag does, those of ``pretrain_gpt.py`` included."""
    arguments = module(checkout)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser = arguments.add_megatron_arguments(parser)
    with contextlib.suppress(ImportError):
        from megatron.post_training.arguments import add_modelopt_args

        parser = add_modelopt_args(parser)
    return {
        flag[2:]: action
        for action in parser._actions
        for flag in action.option_strings
        if flag.startswith("--")
    }


def earlier(repository: Path) -> Iterator[str]:
    """Yield the flags that releases add by name, ``repository`` being a clone."""
    for tag in TAGS:
        path = f"{tag}:megatron/training/arguments.py"
        command = ["git", "-C", str(repository), "show", path]
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False
        )
        for call in re.findall(r"add_argument\(([^)]*)", done.stdout):
            yield from re.findall(r"['\"]--([a-zA-Z][\w-]*)['\"]", call)
