"""Every file in ``rules/run``: its examples, its names, its patterns, its fixes."""

import re
import re._constants as op
import re._parser as syntax
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fp8tune.config.reader import read_config
from fp8tune.facts import FACTS
from fp8tune.fields import FIELDS
from fp8tune.job import Target, Unknown
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.rules import CONSEQUENCES, SEVERITIES
from fp8tune.trainers.about import trainers
from fp8tune.trainers.trainer import trainer
from fp8tune.trials.record import OUTCOMES
from fp8tune.verify import causes
from fp8tune.verify.cause import ROLES, Scope, filled, texts
from fp8tune.verify.cause import causes as read_causes
from fp8tune.verify.diagnosis import implied
from fp8tune.verify.evidence import Log, Sign
from fp8tune.verify.figures import FIGURES, Figures
from fp8tune.verify.lines import clean
from fp8tune.verify.shapes import shapes_of
from tests.each import each
from tests.verify.files import signs_of

OF_SIGNS = ("rank", "last_step", "inner")
"""What is known of every text: who printed it, the step of its last line, and for one
that ``wraps`` others the error below it."""


class Case(NamedTuple):
    """Figures and captured texts with which a condition holds, or not; for tests.

    ``config`` is the run's, if there is one, and ``fixed`` the config with the fix.
    """

    names: dict[str, Any]
    config: str = ""
    fixed: str = ""


def cases_of(cause, kind):
    """The cases of a cause's file in which its condition ``fires`` or is ``silent``."""
    return [
        Case(entry.get("names", {}), entry.get("config", ""), entry.get("fixed", ""))
        for entry in cause.data.get(kind, ())
    ]


CAUSES = list(read_causes().values())
TEXTS = [(cause, text) for cause in CAUSES for text in cause.texts]
CASES = [
    (cause, case, fires)
    for cause in CAUSES
    for fires, kind in ((True, "fires"), (False, "silent"))
    for case in cases_of(cause, kind)
]
FIELDS_OF_A_FILE = {
    *("name", "title", "category", "severity", "role", "of", "order", "trainer"),
    *("implies", "when", "message", "help", "why", "rules", "references"),
    *("text", "fix", "fires", "silent", "outcome", "wraps"),
}
ENDINGS = ("rejected", "crash", "memory", "stability")
"""Categories whose causes end a trial."""
MOST_PATHS = 500
"""Ways of matching that a pattern may try from one place."""


class Given(dict):
    """Figures with these values; all others are unknown."""

    def __missing__(self, name):
        raise Unknown(name)


def scope(case, config=None):
    figures = Given({k: v for k, v in case.names.items() if k in FIGURES})
    captured = {
        name.removeprefix("text."): str(value)
        for name, value in case.names.items()
        if name.startswith("text.")
    }
    return Scope(figures, captured, config and config.job), figures, captured


def config_of(text, folder):
    path = folder / "train.toml"
    path.write_text(text)
    return read_config(str(path), Target())


@each("cause", CAUSES)
def test_a_file_is_whole(cause):
    files = Path(__file__).parents[2] / "rules" / "run"
    assert (files / f"{cause.name}.toml").exists()
    assert set(cause.data) <= FIELDS_OF_A_FILE
    assert re.fullmatch(r"[a-z0-9-]+", cause.name)
    assert cause.category in CONSEQUENCES
    assert cause.severity in SEVERITIES
    assert cause.role in ROLES
    assert (cause.outcome or "user") in OUTCOMES
    assert bool(cause.outcome) == (cause.category in ENDINGS) or cause.data["outcome"]
    assert cause.why
    assert cause.references
    assert cause.texts or cause.when
    assert set(cause.implies) <= read_causes().keys() - {cause.name}
    assert set(cause.rules) <= {rule.name for rule in read_builtin()} | {*CONSEQUENCES}
    assert set(cause.trainers) <= trainers().keys()
    if cause.role != "event":
        assert cause.messages
        assert re.fullmatch(r"[^{}]+[^.]", cause.help)
    if cause.of:
        assert not cause.texts
        assert cause.when
        assert cause.of in read_causes()
    for entry in cause.data.get("fix", ()):
        assert {"safety", "title", "set"} <= set(entry)
        assert ("changes" in entry) == (entry["safety"] == "unsafe")


def known_names(cause):
    """Every name that the expressions of a cause may use."""
    yield from FIGURES
    general = read_causes().get(cause.of, cause)
    for text in (*cause.texts, *general.texts):
        yield from (f"text.{name}" for name in (*OF_SIGNS, *text.pattern.groupindex))
    for known in trainers().values():
        for id_ in known.ids:
            yield from trainer(id_).vocabulary.names()


@each("cause", CAUSES)
def test_expressions_name_only_what_there_is(cause):
    known = {*known_names(cause), *FIELDS, *FACTS}
    used = {name for template in cause.messages for name in template.names}
    if cause.when:
        used |= set(cause.when.names)
    for fix in cause.fixes:
        for expression in (fix.when, *fix.set.values()):
            used |= set(expression.names) if expression else set()
        used |= {*fix.title.names, *fix.changes.names, *fix.set}
    assert used - known == set()


@each(("cause", "text"), TEXTS)
def test_every_example_has_its_own_cause_and_no_other(cause, text):
    assert text.examples
    for example in text.examples:
        assert text.pattern.search(clean(example.encode())[0]), example
        (shape,) = shapes_of(example.encode())
        assert any(shapes_of(each)[0] in shape for each in text.triggers), example
        log = Log("run.log", signs=signs_of(example))
        if cause.role == "event":
            assert cause.name in {sign.cause for sign in log.signs}
            continue
        roots = [d.code for d in causes.diagnose([log], []) if not d.after]
        assert roots == [cause.name], example
    for example in text.counterexamples:
        assert not text.pattern.search(clean(example.encode())[0]), example


def test_lines_of_healthy_runs_show_no_cause():
    lines = [
        "[rank 0] INFO     [step 10] loss=9.5000 | lr=3.00e-05 | grad_norm=1.234 | "
        "tok/s=1,625,201 | mfu=53.8% | mem=71.2/140GB | step_time=1.25s",
        "[rank 0] INFO     Applied Float8 training: recipe=TENSORWISE, "
        "fsdp_float8_all_gather=True",
        "[titan] 2025-10-20 10:00:00,000 - root - INFO - step: 10  loss: 7.12345  "
        "grad_norm: 2.1  memory: 45.68GiB(57.70%)  tps: 5,189  tflops: 1.0  mfu: 33%",
        "{'loss': '4.897', 'grad_norm': '3.836', 'learning_rate': '5e-05'}",
        " [2025-01-10] iteration 10/ 100 | lm loss: 1.0E+01 | loss scale: 1.0 | "
        "number of skipped iterations: 0 | number of nan iterations: 0 |",
        "12:00:01 INFO Step 80 |   1.23s | Loss 2.1 | Grad. Norm 0.4 | LR 1.00e-06",
        "Found `torchao` installed, using it for FP8 training.",
        "Accelerate FP8 status - enabled: True, backend: FP8BackendType.AO",
        "WARNING: PYTORCH_CUDA_ALLOC_CONF is deprecated",
        "node1:1:2 [0] NCCL INFO Connected all rings",
        "Epoch 1: information on infinite data, nanoseconds per step",
    ]
    assert signs_of("\n".join(lines)) == []
    steps = [line for line in lines if "oss" in line and "rad" in line]
    without_digits = [re.sub(r"\d", "", line) for line in steps]
    triggers = [
        re.sub(rb"\d", b"", t).decode() for text in texts() for t in text.triggers
    ]
    assert len(steps) == 4
    assert [t for t in triggers for line in without_digits if t in line] == []


@each(("cause", "case", "fires"), CASES)
def test_conditions_hold_in_their_cases(cause, case, fires, tmp_path):
    given, _, _ = scope(case, config_of(case.config, tmp_path) if case.config else None)
    if cause.when:
        holds = _known_to_hold(cause, given)
        assert holds == fires
    if fires and case.names:
        assert filled(cause.messages, given)


def _known_to_hold(cause, given):
    try:
        return bool(cause.when.evaluate(given))
    except Unknown:
        return False


def test_every_condition_has_a_case_for_and_against_it():
    for cause in CAUSES:
        kinds = {"fires", "silent"} if cause.when else set()
        assert kinds <= cause.data.keys(), cause.name


@pytest.mark.parametrize(
    ("cause", "case"),
    [(cause, case) for cause, case, _ in CASES if case.fixed],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_fix_writes_the_config_and_lint_is_silent_then(cause, case, tmp_path):
    config = config_of(case.config, tmp_path)
    _, figures, captured = scope(case, config)
    signs = [Sign(cause.name, 1, "", captured)]
    found = causes.diagnosis(cause, "run.log", signs, figures, config)
    assert found.fix is not None
    after = causes.fixed(config, [found], unsafe=True)
    assert after.decode() == case.fixed
    if found.fix.safety != "safe":
        assert causes.fixed(config, [found], unsafe=False) == config.data
    now = causes.diagnosis(
        cause, "run.log", signs, figures, config_of(case.fixed, tmp_path)
    )
    left = {(each.rule, each.severity) for each in now.found}
    assert {rule for rule, severity in left if severity == "error"} == set()


@each("cause", [cause for cause in CAUSES if cause.data.get("fix")])
def test_every_fix_of_its_own_has_a_case(cause):
    assert any(case.fixed for case in cases_of(cause, "fires"))


def ways(tree, nested=False):
    """How many ways a pattern may try from one place; fails if unbounded or nested."""
    total = 1
    for kind, value in tree:
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            low, high, inner = value
            assert high is not op.MAXREPEAT, "a repeat without bound"
            assert high == 1 or not nested, "a repeat in a repeat"
            inside = ways(inner, nested or high > 1)
            total *= 1 + inside if high == 1 else (high - low + 1) * inside
        elif kind is op.POSSESSIVE_REPEAT:
            low, high, inner = value
            assert high is not op.MAXREPEAT, "a repeat without bound"
            total *= ways(inner, nested or high > 1)
        elif kind is op.SUBPATTERN:
            total *= ways(value[3], nested)
        elif kind is op.BRANCH:
            total *= max(ways(branch, nested) for branch in value[1])
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            total *= ways(value[1], nested)
    return total


@each(("cause", "text"), TEXTS)
def test_patterns_do_not_backtrack_far(cause, text):
    assert ways(syntax.parse(text.pattern.pattern)) <= MOST_PATHS
    for trigger in text.triggers:
        assert len(re.sub(rb"\d", b"", trigger)) >= 5, trigger


def test_implications_do_not_go_in_circles():
    for cause in CAUSES:
        assert cause.name not in implied(cause)


def test_figures_of_no_run_are_unknown():
    figures = Figures([], [])
    for name in FIGURES:
        with pytest.raises(Unknown):
            figures[name]
