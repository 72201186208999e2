"""The bash script that runs the phases one after the other."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from fp8tune.phases.plan import PhasedRun
from fp8tune.phases.write import PhaseConfig
from fp8tune.words import plain

TEMPLATE = """\
#!/usr/bin/env bash
# Written by fp8tune phases from {source}.
# Start it where the paths below hold. Start it again after an interruption: phases that
# ended are skipped, and one that was interrupted goes on from its newest checkpoint.
set -euo pipefail

launch=({launch})
checkpoints={checkpoints}

# The step of the newest complete checkpoint, as the trainer finds it.
newest() {{
{saved}
}}

saved_step() {{
  local step
  step=$(newest)
  if [[ $step =~ ^[0-9]{{1,15}}$ ]]; then echo "$((10#$step))"; else echo 0; fi
}}

fail() {{
  echo "phase $1: $2" >&2
  exit 1
}}

# phase NAME START END ENDED LOG COMMAND...
phase() {{
  local name=$1 start=$2 end=$3 ended=$4 log=$5 step
  shift 5
  step=$(saved_step)
  if ((step > start)) && [[ ! -e $log ]]; then
    fail "$name" "$checkpoints has a checkpoint of step $step, but there is no $log: \
these are checkpoints of another run or of other phases; move $checkpoints away"
  fi
  if ((step >= end)); then
    echo "phase $name: ended before, $checkpoints has step $step"
    return
  fi
  if ((step < start)); then
    fail "$name" "needs the checkpoint of step $start, $checkpoints has step $step"
  fi
  echo "phase $name: from step $step to $end"
  if ! "${{launch[@]}}" "$@" 2>&1 | tee -a -- "$log"; then
    fail "$name" "the trainer failed; start this script again to go on from step \
$(saved_step)"
  fi
  step=$(saved_step)
  if ((step != end)); then
    fail "$name" "the trainer exited before step $end; start this script again to go \
on from step $step"
  fi
  if ! grep -qF -- "$ended" "$log"; then
    fail "$name" "$log does not say: $ended"
  fi
}}

{phases}
"""
IMPORTS = '''\
"""Written by fp8tune phases: start a script after `import torchao.float8`.

A checkpoint of the FP8 phase holds weights of a class of torchao. Where torchao is not
imported, torch.load refuses to read them, and a bf16 run does not import it.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    import torchao.float8  # noqa: F401

    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
'''


def scripts(
    plan: PhasedRun, configs: Sequence[PhaseConfig], launcher: Sequence[str], base: str
) -> dict[str, bytes]:
    """Return the script, and the file that imports torchao if it needs it, by path.

    No path may start with a dash.
    """
    last, imports = plan.phases[-1], f"{base}.py"
    after = last.precision == "bf16" and last.start > 0
    needed = bool(after and plan.config.trainer.phases.NEEDS_TORCHAO)
    text = _script(plan, configs, launcher, imports if needed else "")
    files = {f"{base}.sh": text.encode(errors="surrogateescape")}
    return files | {imports: IMPORTS.encode()} if needed else files


def _script(
    plan: PhasedRun,
    configs: Sequence[PhaseConfig],
    launcher: Sequence[str],
    imports: str,
) -> str:
    """Return the text of the script; ``imports`` starts the phase after FP8."""
    config = plan.config
    about = config.trainer.about.phases
    calls = []
    for each in configs:
        phase, after = each.phase, each.phase.precision == "bf16" and each.phase.start
        words = [each.path if w == "CONFIG" else w for w in about["program"]]
        if after and imports:
            words.insert(0, imports)
        words += config.overrides
        ended = about["ended"].replace("END", str(phase.end))
        # With the last step in its name, the log of another split is no log of this one
        log = f"{each.path.removesuffix('.toml')}.to-{phase.end}.log"
        given = [phase.name, str(phase.start), str(phase.end), ended, log, *words]
        calls.append(f"phase {shlex.join(given)}")
    return TEMPLATE.format(
        source=plain(config.path),
        launch=shlex.join(launcher),
        checkpoints=shlex.quote(config.trainer.phases.checkpoints(plan.values(0))),
        saved=about["saved"].strip("\n"),
        phases="\n".join(calls),
    )
