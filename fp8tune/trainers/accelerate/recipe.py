"""The options of ``fp8_config``: which the backend reads, and which it refuses.

Source: accelerate 1.8.1 to 1.15.0, utils/dataclasses.py.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown, Words
from fp8tune.trainers.accelerate.job import FALSE_WORDS, TRUE_WORDS

TE_OPTIONS = {
    "use_autocast_during_eval": False,
    "margin": 0,
    "interval": 1,
    "fp8_format": "HYBRID",
    "amax_history_len": 1024,
    "amax_compute_algo": "most_recent",
    "override_linear_precision": [False, False, False],
    "use_mxfp8_block_scaling": None,
}
"""Options of Transformer Engine's recipe, and Accelerate's defaults."""

AO_OPTIONS = ("enable_fsdp_float8_all_gather", "pad_inner_dim")
"""Options of torchao, since 1.13."""

OPTIONS = {"AO": AO_OPTIONS, "TE": tuple(TE_OPTIONS), "MSAMP": ("opt_level",)}
"""The options that each backend reads (utils/dataclasses.py)."""


OVERRIDE = "override_linear_precision"
GONE = {OVERRIDE: ("2.1", 2.01), "interval": ("2.3", 2.03)}
"""Options of a recipe, and the release of Transformer Engine that removed each."""

NEW = 9.0
"""Stands for the release of a new installation."""


def options_of_others(job: Job, fp8_backend: str) -> str:
    """Options of ``fp8_config`` that this backend does not read."""
    every = (option for options in OPTIONS.values() for option in options)
    written = [option for option in every if _writes(job, option)]
    if written and fp8_backend in ("", "NO"):
        raise Unknown("fp8_backend")
    own = OPTIONS.get(fp8_backend, tuple(written))
    names = [option for option in written if option not in own]
    return Words(", ".join(f"`{name}`" for name in names))


def te_option_set(job: Job) -> str:
    """The first option that the file sets to another value than Transformer Engine's.

    Empty if ``DelayedScaling()`` computes the same. Its ``amax_compute_algo`` is max,
    and most_recent never arrives, whatever becomes of the others.
    """
    lost = (n for n in TE_OPTIONS if n != "amax_compute_algo" and _differs(job, n))
    return Words(next((f"fp8_config.{name}" for name in lost), ""))


def te_options_read(forced_precision: str = "") -> bool:
    """Whether options of Transformer Engine are read: unless the arguments force bf16.

    Then no recipe is made of them, and the autocast takes delayed scaling as it is.
    """
    return not forced_precision


def history_option(
    job: Job, te_options_read: bool, fp8_config_amax_compute_algo: Any = None
) -> str:
    """The option that asks for a history of maxima as delayed scaling has it."""
    if not te_options_read:
        return Words("")
    if fp8_config_amax_compute_algo == "max":
        return Words("fp8_config.amax_compute_algo")
    longer = _differs(job, "amax_history_len")
    return Words("fp8_config.amax_history_len" if longer else "")


def te_option_gone(
    job: Job,
    overrides_unreadable: bool,
    te_options_read: bool,
    te_newest: float = NEW,
) -> str:
    """The option that the recipes of this release of Transformer Engine lack.

    Without a known release those of a new installation.
    """
    if not te_options_read:
        return Words("")
    for name, (_, first) in GONE.items():
        readable = name != OVERRIDE or not overrides_unreadable
        if readable and _differs(job, name) and te_newest >= first:
            return Words(f"fp8_config.{name}")
    return Words("")


def te_option_until(te_option_gone: str) -> str:
    """The first release of Transformer Engine without the option."""
    return Words(GONE[te_option_gone.removeprefix("fp8_config.")][0])


def overrides_unreadable(
    te_options_read: bool, fp8_config_override_linear_precision: Any = None
) -> bool:
    """Whether one of the three switches of the GEMMs is neither true nor false."""
    if not te_options_read:
        return False
    value = fp8_config_override_linear_precision
    three = value[:3] if isinstance(value, (str, list)) else ()
    return any(str(part).lower() not in TRUE_WORDS + FALSE_WORDS for part in three)


def unreadable_switch(job: Job) -> str:
    """The switch of torchao that is neither true nor false."""
    for key in (f"fp8_config.{name}" for name in AO_OPTIONS):
        value = job.given.get(key)
        if value is not None and str(value).lower() not in TRUE_WORDS + FALSE_WORDS:
            return Words(key)
    return Words("")


def te_format(te_options_read: bool, fp8_config_fp8_format: Any = "HYBRID") -> str:
    """Format of Transformer Engine's recipe."""
    return Words(str(fp8_config_fp8_format).upper() if te_options_read else "HYBRID")


def te_option_refused(
    te_options_read: bool, te_format: str, fp8_config_amax_compute_algo: Any = None
) -> str:
    """The key of Transformer Engine's option whose value Accelerate refuses."""
    if not te_options_read:
        return Words("")
    if te_format not in ("HYBRID", "E4M3", "E5M2", "NONE"):
        return Words("fp8_config.fp8_format")
    algorithm = str(fp8_config_amax_compute_algo).lower()
    wrong = algorithm not in ("max", "most_recent", "none")
    return Words("fp8_config.amax_compute_algo" if wrong else "")


def _writes(job: Job, option: str) -> bool:
    return f"fp8_config.{option}" in job.written


def _differs(job: Job, option: str) -> bool:
    value, default = job.given.get(f"fp8_config.{option}"), TE_OPTIONS[option]
    if isinstance(value, str) and isinstance(default, str):  # their case is no matter
        value, default = value.lower(), default.lower()
    unset = value is None or (default is None and not value)
    return _writes(job, option) and not unset and value != default
