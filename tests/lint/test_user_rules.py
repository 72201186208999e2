"""A run with rules of users beside the built-in ones."""

import pytest

from fp8tune.lint.run import Options, Problem, run
from tests.lint.results import rules_of
from tests.sample import NO_PIPELINE


@pytest.mark.parametrize("where", ["options", "settings"])
def test_rules_of_users(configured, where):
    configured(
        "rules = ['mine']" if where == "settings" else "",
        "[train]\ngrad_accum_steps = 4\n[distributed]\npp = 2\n",
        **{"mine/silent/no-pipeline.toml": NO_PIPELINE},
    )
    options = Options(packs=("mine",) if where == "options" else ())
    assert rules_of(run(("a.toml",), options)) == ["no-pipeline"]
    assert rules_of(run(("a.toml",), options._replace(select=("ME301",)))) == [
        "no-pipeline"
    ]
    assert rules_of(run(("a.toml",), options._replace(ignore=("silent",)))) == []


def test_settings_find_rules_from_other_folders(configured):
    root = configured(
        "rules = ['mine']",
        **{
            "mine/silent/no-pipeline.toml": NO_PIPELINE,
            "sub/b.toml": "[train]\ngrad_accum_steps = 4\n[distributed]\npp = 2\n",
        },
    )
    assert rules_of(run((f"{root}/sub/b.toml",), Options())) == ["no-pipeline"]


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


def test_two_rules_of_users_with_one_code(configured):
    configured(
        "rules = ['mine']",
        **{
            "mine/silent/no-pipeline.toml": NO_PIPELINE,
            "mine/slow/other.toml": NO_PIPELINE.replace("no-pipeline", "other"),
        },
    )
    with pytest.raises(Problem, match=r"other\.toml: ME301 is taken by "):
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
