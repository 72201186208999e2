"""Whether fp8tune refuses what LLaMA-Factory refuses, and knows where FP8 is on.

``python -m tools.llamafactory.verdicts 0.9.5 PYTHON --count 400 --seed 1`` draws
configs (``generate.py``), lets LLaMA-Factory itself judge them with PYTHON, which has
it (``judge.py``), and compares: rejected or not, and FP8 modules or not. ``--output
FILE`` keeps the verdicts as JSON lines (gzip), ``--verdicts FILE`` compares with those
that were kept. fp8tune refuses a config when a rule of the category ``rejected`` fires
as an error.

Verdicts that rest on the release of transformers are counted apart, because no config
says which is installed; whether FP8 is on is compared for the release that was. Exit
code 0: all others agree; 1: some do not.
"""

from __future__ import annotations

import sys
from typing import Any

from fp8tune.formats import parse
from fp8tune.trainers.trainer import trainer
from tools import setup_verdicts
from tools.llamafactory.generate import configs
from tools.setup_verdicts import Compared, Verdict

UNKNOWN = "are not used by the HfArgumentParser"
"""What LLaMA-Factory says of unknown keys."""

INCOMPATIBLE = ("incompatible with transformers", "warmup_steps must be of type int")
"""Words of refusals by one release of transformers."""


def depends(verdict: Verdict) -> bool:
    """Return whether a verdict rests on the release of transformers."""
    error = verdict["error"]
    if any(words in error for words in INCOMPATIBLE):
        return True
    keys = trainer(f"llamafactory=={verdict['version']}").schema.top_keys
    values = parse(verdict["yaml"].encode(), "x.yaml").values
    return UNKNOWN in error and all(name in keys for name in values)


def values(verdict: Verdict) -> dict[str, Any]:
    """Return what is known beside the config: the release of transformers."""
    return {"transformers_release": verdict["transformers"]}


LLAMAFACTORY = Compared("llamafactory", configs, depends, values)


def main(arguments: list[str] | None = None) -> int:
    """Compare verdicts; print each difference, and the agreement."""
    return setup_verdicts.main(LLAMAFACTORY, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
