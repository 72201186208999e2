"""What Axolotl refuses before it trains: values that do not fit together.

Each check names the keys to blame and says when values are refused. It gets the file as
it is written (``f``, absent keys are null) and the values after conversion (``v``), as
Axolotl's validators before and after pydantic's own checks do. A check that cannot
compute with the values counts as a refusal where the validator runs before (``f``).

Source: Axolotl 0.18.0 and 0.19.0, utils/schemas/*.py. What depends on the machine or on
other packages is left out: GPU, files, plugins of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fp8tune.trainers.axolotl.data_checks import DATA
from fp8tune.trainers.axolotl.model_checks import MODEL
from fp8tune.trainers.axolotl.training_checks import TRAINING
from fp8tune.trainers.axolotl.values import Values

CANNOT = "the trainer computes with it, and cannot"
"""The reason where a value of another kind ends the check itself."""

CHECKS = (*DATA, *TRAINING, *MODEL)


def refusals(
    written: dict[str, Any], values: dict[str, Any], version: str
) -> Iterator[tuple[str, str, str]]:
    """Yield for each check that fails the keys to blame, the reason, the hint.

    ``values`` lack the keys that pydantic refuses: then later validators do not run.
    """
    f, v = Values(written), Values(values)
    for check in CHECKS:
        if check.only not in ("", version):
            continue
        try:
            if check.refused(f, v):
                yield check.keys, check.reason, check.hint
        except (TypeError, AttributeError, ValueError):
            yield check.keys, CANNOT, ""
