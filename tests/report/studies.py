"""Studies as the tests of the report read them."""

import io

from fp8tune.job import Target
from fp8tune.report.data import StudyReport, read_report
from fp8tune.search.answer.answer import Ending
from fp8tune.search.answer.stored import answer_of, as_json, next_commands, to_store
from fp8tune.search.plan import Plan, config_to_search
from fp8tune.search.saved_study import load_study
from fp8tune.search.study import Study
from fp8tune.search.write.tuned_config import write_tuned
from fp8tune.trials.space import Space
from tests.search import tries
from tests.search.tries import BEST, BEST_BF16, BF16, GIVEN, KNOBS, OTHER, ran
from tests.search.tries import CONFIG as TRAIN

CONFIG = f"# my model\n{TRAIN}"
LARGER = (3, 1, 1, 1)
H200 = Target("h200", 1)
STEPS = (100.0, 101.0, 99.0)


def evidence(fp8=True, **more):
    """What a real trial leaves in its record besides its speed."""
    return {
        "all_step_ms": [30000.0, 120.0, *STEPS],
        "losses": [6.0, 5.0, 4.0, 3.0 + 0.03 * fp8],
        "grad_norms": [2.0, 1.5, 1.0, 0.5],
        "environment": "NVIDIA H200, torch 2.13.0",
        "capacity_gib": 139.8,
        "float8_matmuls": 84 * fp8,
        **more,
    }


def told(point, speed, fp8=True, **fields):
    """A record with all that a real trial tells."""
    peak = {"peak_gib": 20.0 + 10 * point[0], "reserved_gib": 24.0 + 10 * point[0]}
    more = evidence(fp8, **fields.pop("more", {}))
    return ran(point, speed, step_ms=STEPS, more=more, **{**peak, **fields})


def confirmed(*records):
    """What a search that ended by itself adds at its end: each of them twice."""
    return tries.confirmed(*records, *reversed(records))


FAILED = [
    ("baseline", ran(GIVEN, outcome="oom")),
    ("search", ran(OTHER, outcome="hang")),
]
"""A search in which nothing ran."""
FOUND = [
    ("baseline", told(GIVEN, 100)),
    ("bf16-baseline", told(BF16, 90, fp8=False)),
    ("search", told(BEST, 152)),
    ("search", told(OTHER, 110, peak_gib=50.0)),
    ("search", ran(LARGER, outcome="oom", more={"message": "CUDA out of memory"})),
]
"""A search that found a faster setting."""
WHOLE = [
    *FOUND,
    *confirmed(told(BEST, 150), told(BEST_BF16, 120, fp8=False), told(GIVEN, 100)),
]
"""The same, with its confirmation."""


def plan(config=CONFIG, path="a.toml", knobs=KNOBS, target=H200) -> Plan:
    read = config_to_search(path, config.encode(), target, "kempnerforge")
    return Plan(read, Space(knobs), GIVEN)


CUT_OFF = {"cut_off": True, "budget_s": 60.0}
"""What a trial has besides its record if the end of the budget cut it off."""


def study(folder, trials=WHOLE, made=None, ending=None, **about) -> str:
    """A study's folder with trials of ``(stage, record)``, or with ``CUT_OFF`` too."""
    made = made or plan()
    kept = Study(made.space, str(folder))
    kept.describe(made.about(**{"device": "cuda", "allow": [], "output": "", **about}))
    for stage, record, *more in trials:
        kept.add(stage, record, **(more[0] if more else {}))
    output = kept.about["output"]
    if output is not None:
        conclude(kept, output, ending or Ending())
    return str(folder)


def conclude(kept, output, ending):
    """Store the answer as a search does at its end; ``output`` is the tuned config."""
    saved = load_study(kept.folder)
    about, of = saved.about, saved.plan
    answer = answer_of(saved, ending)
    written = write_tuned("t.toml", of, answer, saved.name, about, io.StringIO())
    commands = next_commands(of, about, answer, output)
    data = as_json(answer, of, saved.folder, output, about, commands)
    stored = to_store(answer, of, data)
    kept.note(output=output, answer=stored, tuned=dict(written.texts))


def report_of(folder, *trials, **about) -> StudyReport:
    """The report of such a study."""
    return read_report(load_study(study(folder, *trials, **about)))


MODEL = "[model]\ndim = {dim}\nn_layers = {layers}\n"


def config(dim=4096, layers=32, **values):
    text = CONFIG + MODEL.format(dim=dim, layers=layers)
    for key, value in values.items():
        text = text.replace(key, value)
    return text


MINE = plan(config())
