"""Rules of users: over one config, and in a run beside the built-in ones."""

import pytest

from fp8tune.config.settings import Options
from fp8tune.job import Target
from fp8tune.lint.engine import check
from fp8tune.lint.packs import read_pack
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.run import run
from fp8tune.lint.selection import Problem
from tests.each import each
from tests.lint.results import rules_of
from tests.sample import NO_PIPELINE


def test_one_pack_for_several_settings(configured):
    configured(
        "",
        "[train]\ngrad_accum_steps = 4\n[distributed]\npp = 2\n",
        **{
            "mine/silent/no-pipeline.toml": NO_PIPELINE,
            "sub/pyproject.toml": "[tool.fp8tune]\nseverity = {silent = 'note'}\n",
            "sub/a.toml": "[train]\ngrad_accum_steps = 4\n[distributed]\npp = 2\n",
        },
    )
    result = run(("a.toml", "sub/a.toml"), Options(packs=("mine",)))
    assert [(d.path, d.severity) for d in result.diagnostics] == [
        ("a.toml", "warning"),
        ("sub/a.toml", "note"),
    ]


@pytest.mark.parametrize("again", ["mine", "mine/", "./mine"])
def test_the_same_pack_named_twice_is_one(configured, again):
    configured(
        "rules = ['mine']",
        "[train]\ngrad_accum_steps = 4\n[distributed]\npp = 2\n",
        **{"mine/silent/no-pipeline.toml": NO_PIPELINE},
    )
    assert rules_of(run(("a.toml",), Options(packs=(again,)))) == ["no-pipeline"]


@pytest.mark.parametrize(
    ("name", "text", "taken"),
    [
        ("fp8-without-compile", NO_PIPELINE, "fp8-without-compile"),
        ("no-pipeline", NO_PIPELINE.replace("ME301", "FP8401"), "FP8401"),
    ],
)
def test_a_name_or_code_that_is_taken(configured, name, text, taken):
    configured(
        "rules = ['mine']",
        **{f"mine/silent/{name}.toml": text.replace("no-pipeline", name)},
    )
    with pytest.raises(Problem, match=f"{name}.toml: {taken} is taken by .*/fp8-with"):
        run(("a.toml",), Options())


def test_a_bad_rule_of_a_user_stops_the_run(configured):
    root = configured(
        "rules = ['mine']",
        **{
            "mine/silent/no-pipeline.toml": NO_PIPELINE.replace("pp > 1", "ppp > 1"),
        },
    )
    with pytest.raises(Problem) as error:
        run(("a.toml",), Options())
    assert str(error.value) == (
        f"{root}/mine/silent/no-pipeline.toml:8:9: unknown name `ppp`; "
        "did you mean `pp`?"
    )


def test_a_user_rule_on_a_fault_does_not_silence_the_built_in_one(configured):
    text = NO_PIPELINE.replace('when = "pp > 1"', 'fault = "unknown-key"')
    configured(
        "rules = ['mine']",
        "[train]\nzzz = 1\n",
        **{
            "mine/silent/no-pipeline.toml": text.replace("pp is {pp}", "x").replace(
                'key = "pp"', 'key = "fault"'
            )
        },
    )
    assert "unknown-key" in rules_of(run(("a.toml",), Options()))


def pack(tmp_path, condition, message):
    text = NO_PIPELINE.replace("pp > 1", condition).replace("pp is {pp}", message)
    text = text.replace('"pp"', '["tp", "pp"]\nlabel = "is {tp}"')
    (tmp_path / "silent").mkdir(exist_ok=True)
    (tmp_path / "silent" / "no-pipeline.toml").write_text(text)
    return Rules(read_pack(str(tmp_path)), {})


@pytest.mark.parametrize("message", ["on {gpu.title}", "of {world_size}"])
def test_a_message_that_needs_an_unknown_fact_is_the_summary(tmp_path, message):
    rules = pack(tmp_path, "tp > 1", message)
    report = check("a.toml", b"[train]\n[distributed]\ntp = 2\n", rules, Target())
    assert [found.message for found in report.diagnostics] == ["s"]
    assert report.unjudged == {}


@each(
    ("condition", "world_size", "text", "fires"),
    [
        ("defined(world_size) and tp > 1", 0, "tp = 2", False),
        ("not defined(world_size)", 0, "tp = 2", True),
        ("written(tp)", 0, "pp = 2", False),
        ("defined(tp)", 0, "tp = 0", False),
    ],
)
def test_functions_of_a_name(tmp_path, condition, world_size, text, fires):
    rules = pack(tmp_path, condition, "x")
    target = Target("", world_size, "", "--world-size" * bool(world_size))
    data = f"[train]\n[distributed]\n{text}\n".encode()
    assert bool(check("a.toml", data, rules, target).diagnostics) is fires
