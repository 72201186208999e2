"""Whether fp8tune refuses what Axolotl refuses, and knows where FP8 is on.

``python -m tools.axolotl.verdicts 0.19.0 PYTHON --count 400 --seed 1`` draws
configs (``generate.py``), lets Axolotl itself judge them with PYTHON, which has it
(``judge.py``), and compares: rejected or not, and FP8 modules or not. ``--output FILE``
keeps the verdicts as JSON lines (gzip), ``--verdicts FILE`` compares with those that
were kept. fp8tune refuses a config when a rule of the category ``rejected`` fires as an
error.

Verdicts that rest on a package that is not installed are counted apart. Exit code 0:
all others agree; 1: some do not.
"""

from __future__ import annotations

import sys
from typing import Any

from tools import setup_verdicts
from tools.axolotl.generate import configs
from tools.setup_verdicts import Compared, Verdict


def depends(verdict: Verdict) -> bool:
    """Return whether a verdict rests on a package that is not installed."""
    missing = ("ImportError", "ModuleNotFoundError", "PackageNotFoundError")
    return str(verdict["error"]).startswith(missing)


def values(_: Verdict) -> dict[str, Any]:
    """Return what is known beside the config: nothing."""
    return {}


AXOLOTL = Compared("axolotl", configs, depends, values)


def main(arguments: list[str] | None = None) -> int:
    """Compare verdicts; print each difference, and the agreement."""
    return setup_verdicts.main(AXOLOTL, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
