"""A whole run: options, settings, selection, and the target's precedence."""

import pytest

from fp8tune.lint.run import MANY, Options, Problem, Result, run, selected
from tests.sample import NO_PIPELINE

FP8 = '[train]\nmixed_precision = "fp8"\ncompile_model = false\n'
TP = '[train]\nmixed_precision = "fp8"\n[distributed]\ntp = 4\n'
RULE = NO_PIPELINE


def names(result):
    return [(d.path, d.rule) for d in result.diagnostics]


def rules_of(result):
    return [d.rule for d in result.diagnostics]


@pytest.fixture
def configured(project):
    """A config beside a ``[tool.fp8tune]`` table."""

    def write(settings, config=FP8, **more):
        files = {"pyproject.toml": f"[tool.fp8tune]\n{settings}\n", "a.toml": config}
        return project({**files, **more})

    return write


def test_nothing_to_check(project):
    project({"readme.txt": ""})
    assert run((".",), Options()) == Result([], [])


def test_files_in_order(project):
    project({"b.toml": TP, "a.toml": FP8, "sub/c.toml": TP})
    assert names(run((".",), Options())) == [
        ("a.toml", "fp8-without-compile"),
        ("b.toml", "fp8-with-tensor-parallel"),
        ("sub/c.toml", "fp8-with-tensor-parallel"),
    ]


def test_what_cannot_be_read_does_not_stop_the_rest(project):
    project(
        {"a.toml": TP, "big.toml": "#" * (2 << 20), "sub/big.toml": "#" * (2 << 20)}
    )
    result = run(("nosuch.toml", "a.toml", "big.toml", "sub"), Options())
    assert result.unread == [
        "nosuch.toml: No such file or directory",
        "big.toml: a file of more than 1 MiB is no train config",
    ]
    assert [(r.path, r.skipped, len(r.diagnostics)) for r in result.reports] == [
        ("a.toml", "", 1),
        ("sub/big.toml", "a file of more than 1 MiB is no train config", 0),
    ]


@pytest.mark.parametrize(
    ("select", "ignore", "rules"),
    [
        ((), (), ["gpu-without-fp8", "fp8-without-compile"]),
        (("fp8-without-compile",), (), ["fp8-without-compile"]),
        (("FP8401",), (), ["fp8-without-compile"]),
        (("FP84",), (), ["fp8-without-compile"]),
        (("FP8",), (), ["gpu-without-fp8", "fp8-without-compile"]),
        (("slow",), (), ["fp8-without-compile"]),
        (("crash", "slow"), (), ["gpu-without-fp8", "fp8-without-compile"]),
        (("silent",), (), []),
        (("stability",), (), []),
        ((), ("fp8-without-compile",), ["gpu-without-fp8"]),
        ((), ("FP84",), ["gpu-without-fp8"]),
        ((), ("crash",), ["fp8-without-compile"]),
        ((), ("crash", "slow"), []),
        (("slow", "crash"), ("FP8201",), ["fp8-without-compile"]),
        (("gpu-without-fp8",), ("crash",), []),
    ],
)
@pytest.mark.parametrize("where", ["options", "settings"])
def test_select_and_ignore(configured, where, select, ignore, rules):
    if where == "options":
        configured("gpu = 'a10g'")
        options = Options(select=select, ignore=ignore)
    else:
        configured(
            f"gpu = 'a10g'\nselect = {list(select)!r}\nignore = {list(ignore)!r}"
        )
        options = Options()
    assert rules_of(run(("a.toml",), options)) == rules


def test_select_of_the_command_line_replaces_that_of_the_project(configured):
    configured("gpu = 'a10g'\nselect = ['crash']")
    assert rules_of(run(("a.toml",), Options(select=("slow",)))) == [
        "fp8-without-compile"
    ]


def test_ignores_add_up(configured):
    configured("gpu = 'a10g'\nignore = ['crash']")
    assert rules_of(run(("a.toml",), Options(ignore=("slow",)))) == []


@pytest.mark.parametrize(
    ("by", "means"),
    [
        ("fp8-without-compile", True),
        ("FP8401", True),
        ("FP84", True),
        ("FP8", True),
        ("slow", True),
        ("FP8402", False),
        ("FP", True),
        ("fp8", False),
        ("", False),
        ("crash", False),
    ],
)
def test_selected(builtin, by, means):
    rule = next(rule for rule in builtin if rule.name == "fp8-without-compile")
    assert selected(rule, by) is means


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("slwo", "no rule, code or category 'slwo'; did you mean slow?"),
        (
            "fp8-without-compil",
            "no rule, code or category 'fp8-without-compil'; "
            "did you mean fp8-without-compile?",
        ),
        ("fp8401", "no rule, code or category 'fp8401'; did you mean FP8401?"),
        ("zzzzzz", "no rule, code or category 'zzzzzz'"),
    ],
)
@pytest.mark.parametrize("where", ["select", "ignore", "severity", "per-file-ignores"])
def test_unknown_selector(configured, where, by, said):
    settings = {
        "severity": f"severity = {{'{by}' = 'note'}}",
        "per-file-ignores": f"per-file-ignores = {{'a.toml' = ['{by}']}}",
    }
    root = configured(settings.get(where, f"{where} = ['{by}']"))
    with pytest.raises(Problem) as error:
        run(("a.toml",), Options())
    place = f"{root}/pyproject.toml: [tool.fp8tune] `{where}`"
    assert str(error.value) == f"{place}: {said}"


@pytest.mark.parametrize("option", ["select", "ignore"])
def test_unknown_selector_of_the_command_line(configured, option):
    configured("")
    with pytest.raises(Problem, match=r"^no rule, code or category 'slwo'; did you m"):
        run(("a.toml",), Options(**{option: ("slwo",)}))


@pytest.mark.parametrize(
    "options",
    [
        Options(select=("nosuch",)),
        Options(ignore=("nosuch",)),
        Options(packs=("nosuch",)),
        Options(gpu="nosuch"),
        Options(trainer="nosuch"),
    ],
)
def test_bad_options_are_said_even_if_there_is_no_file(project, options):
    project()
    with pytest.raises(Problem, match="nosuch"):
        run((".",), options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options(gpu="h1000"), "no GPU named 'h1000'; did you mean h100?"),
        (
            Options(trainer="kempnerforg"),
            "no trainer named 'kempnerforg'; did you mean kempnerforge?",
        ),
        (Options(trainer="x"), "no trainer named 'x'; known: kempnerforge"),
        (Options(packs=("nosuch",)), "nosuch: no such folder of rules"),
    ],
)
def test_bad_options(project, options, said):
    project({"a.toml": FP8})
    with pytest.raises(Problem) as error:
        run(("a.toml",), options)
    assert str(error.value) == said


def test_bad_settings(configured):
    root = configured("gpuu = 'h100'")
    with pytest.raises(Problem) as error:
        run(("a.toml",), Options())
    assert str(error.value) == (
        f"{root}/pyproject.toml: [tool.fp8tune] has no setting `gpuu`; "
        "did you mean `gpu`?"
    )


@pytest.mark.parametrize(
    ("by", "level", "expected"),
    [
        ("fp8-without-compile", "note", {"FP8201": "error", "FP8401": "note"}),
        ("FP84", "error", {"FP8201": "error", "FP8401": "error"}),
        ("crash", "warning", {"FP8201": "warning", "FP8401": "warning"}),
        ("silent", "note", {"FP8201": "error", "FP8401": "warning"}),
    ],
)
def test_severity(configured, by, level, expected):
    configured(f"gpu = 'a10g'\nseverity = {{'{by}' = '{level}'}}")
    result = run(("a.toml",), Options())
    assert {d.code: d.severity for d in result.diagnostics} == expected


def test_the_later_of_two_severities_holds(configured):
    configured("[tool.fp8tune.severity]\nFP8 = 'note'\nslow = 'error'")
    (found,) = run(("a.toml",), Options()).diagnostics
    assert found.severity == "error"


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [("a.toml", ["b.toml"]), ("*.toml", []), ("sub/*", ["a.toml", "b.toml"])],
)
def test_per_file_ignores(configured, pattern, hit):
    configured(f"per-file-ignores = {{'{pattern}' = ['slow']}}", **{"b.toml": FP8})
    assert [d.path for d in run((".",), Options()).diagnostics] == hit


def test_per_file_ignores_do_not_reach_the_next_file(configured):
    configured(
        "per-file-ignores = {'a.toml' = ['slow'], 'c.toml' = ['FP8101']}",
        TP + "[checkpoint]\n",
        **{"b.toml": TP, "c.toml": TP, "d.toml": FP8},
    )
    assert names(run((".",), Options())) == [
        ("a.toml", "fp8-with-tensor-parallel"),
        ("b.toml", "fp8-with-tensor-parallel"),
        ("d.toml", "fp8-without-compile"),
    ]


@pytest.mark.parametrize(
    ("paths", "force", "checked"),
    [
        ((".",), False, ["a.toml", "pyproject.toml"]),
        ((".",), True, ["a.toml", "pyproject.toml"]),
        (("old",), False, []),
        (("old/b.toml",), False, ["old/b.toml"]),
        (("old/b.toml",), True, []),
        (("a.toml", "old/b.toml"), True, ["a.toml"]),
    ],
)
def test_exclude(configured, paths, force, checked):
    configured("exclude = ['old', 'zzz/*']", **{"old/b.toml": FP8, "zzz/d.toml": FP8})
    result = run(paths, Options(force_exclude=force))
    assert [report.path for report in result.reports] == checked


def test_stdin_has_the_settings_of_its_name(configured, fp8tune):
    configured("exclude = ['old']\ngpu = 'a10g'", **{"old/x": ""})
    command = ("lint", "-", "--output-format", "concise", "-q", "--stdin-filename")
    said = fp8tune(*command, "old/b.toml", stdin=FP8.encode())
    assert said.code == 1
    assert said.out.startswith("old/b.toml:2:19: error[gpu-without-fp8]")
    said = fp8tune(*command, "old/b.toml", "--force-exclude", stdin=FP8.encode())
    assert said == (0, "", "")


@pytest.mark.parametrize(
    ("option", "header", "setting", "origin"),
    [
        ("a10g", "h200", "h200", "--gpu"),
        ("a10g", "", "", "--gpu"),
        ("", "a10g", "h200", "the comment on line 1"),
        ("", "a10g", "", "the comment on line 1"),
        ("", "", "a10g", "pyproject.toml"),
    ],
)
def test_precedence_of_the_gpu(configured, option, header, setting, origin):
    comment = f"# fp8tune: gpu={header}\n" if header else "#\n"
    configured(f"gpu = '{setting}'" if setting else "", comment + FP8)
    result = run(("a.toml",), Options(gpu=option, select=("crash",)))
    assert [d.message for d in result.diagnostics] == [
        "NVIDIA A10G 24 GB (compute capability 8.6) has no FP8 matmul "
        f"(GPU from {origin})"
    ]


@pytest.mark.parametrize(
    ("option", "header", "setting", "origin"),
    [
        (6, 8, 8, "--world-size"),
        (6, 0, 0, "--world-size"),
        (0, 6, 8, "the comment on line 1"),
        (0, 6, 0, "the comment on line 1"),
        (0, 0, 6, "pyproject.toml"),
    ],
)
def test_precedence_of_the_world_size(configured, option, header, setting, origin):
    comment = f"# fp8tune: world-size={header}\n" if header else "#\n"
    configured(
        f"world-size = {setting}" if setting else "",
        comment + "[train]\n[distributed]\ndp_replicate = 4\n",
    )
    (found,) = run(("a.toml",), Options(world_size=option)).diagnostics
    assert found.rule == "world-size-not-divisible"
    assert found.message == (
        "6 GPUs are not a multiple of dp_replicate x tp x pp x cp x ep = 4 "
        f"(world size from {origin})"
    )


def test_each_folder_has_its_own_settings(project):
    project(
        {
            "pyproject.toml": "[tool.fp8tune]\nignore = ['slow']\n",
            "a.toml": FP8,
            "sub/pyproject.toml": "[tool.fp8tune]\nseverity = {slow = 'note'}\n",
            "sub/a.toml": FP8,
        }
    )
    result = run((".",), Options())
    assert [(d.path, d.severity) for d in result.diagnostics] == [
        ("sub/a.toml", "note")
    ]


@pytest.mark.parametrize(
    ("setting", "option", "path", "skipped"),
    [
        ("", "", "a.toml", "a Python project file"),
        ("trainer = 'kempnerforge'", "", "a.toml", ""),
        ("trainer = 'kempnerforge'", "", ".", "a Python project file"),
        ("", "kempnerforge", "a.toml", ""),
        ("", "kempnerforge", ".", ""),
    ],
)
def test_trainer(configured, setting, option, path, skipped):
    configured(setting, "[project]\nname = 'x'\n")
    result = run((path,), Options(trainer=option))
    assert {r.path: r.skipped for r in result.reports}["a.toml"] == skipped


@pytest.mark.parametrize("where", ["options", "settings"])
def test_rules_of_users(configured, where):
    configured(
        "rules = ['mine']" if where == "settings" else "",
        "[train]\ngrad_accum_steps = 4\n[distributed]\npp = 2\n",
        **{"mine/silent/no-pipeline.toml": RULE},
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
            "mine/silent/no-pipeline.toml": RULE,
            "sub/b.toml": "[train]\ngrad_accum_steps = 4\n[distributed]\npp = 2\n",
        },
    )
    assert rules_of(run((f"{root}/sub/b.toml",), Options())) == ["no-pipeline"]


def test_one_pack_for_several_settings(configured):
    configured(
        "",
        "[train]\ngrad_accum_steps = 4\n[distributed]\npp = 2\n",
        **{
            "mine/silent/no-pipeline.toml": RULE,
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
        **{"mine/silent/no-pipeline.toml": RULE},
    )
    assert rules_of(run(("a.toml",), Options(packs=(again,)))) == ["no-pipeline"]


@pytest.mark.parametrize(
    ("name", "text", "taken"),
    [
        ("fp8-without-compile", RULE, "fp8-without-compile"),
        ("no-pipeline", RULE.replace("ME301", "FP8401"), "FP8401"),
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
            "mine/silent/no-pipeline.toml": RULE,
            "mine/slow/other.toml": RULE.replace("no-pipeline", "other"),
        },
    )
    with pytest.raises(Problem, match=r"other\.toml: ME301 is taken by "):
        run(("a.toml",), Options())


def test_a_bad_rule_of_a_user_stops_the_run(configured):
    root = configured(
        "rules = ['mine']",
        **{
            "mine/silent/no-pipeline.toml": RULE.replace("pp > 1", "ppp > 1"),
        },
    )
    with pytest.raises(Problem) as error:
        run(("a.toml",), Options())
    assert str(error.value) == (
        f"{root}/mine/silent/no-pipeline.toml:8:9: unknown name `ppp`; "
        "did you mean `pp`?"
    )


def test_a_user_rule_on_a_fault_does_not_silence_the_built_in_one(configured):
    text = RULE.replace('when = "pp > 1"', 'fault = "unknown-key"')
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


def test_many_files_are_shared_out_and_come_back_in_order(project):
    files = {f"{number:04}.toml": TP for number in range(MANY)}
    project({**files, "0007.toml": FP8, "0300.toml": "[project]\nname = 'x'\n"})
    result = run((".", "nosuch.toml"), Options())
    assert [report.path for report in result.reports] == sorted(files)
    assert result.unread == ["nosuch.toml: No such file or directory"]
    assert [d.rule for d in result.diagnostics] == [
        "fp8-without-compile" if path == "0007.toml" else "fp8-with-tensor-parallel"
        for path in sorted(files)
        if path != "0300.toml"
    ]
    assert result.reports[300].skipped == "a Python project file"


def test_a_problem_among_many_files_is_said(project):
    project({f"{number:04}.toml": TP for number in range(MANY)})
    with pytest.raises(Problem, match="no rule, code or category 'nosuch'"):
        run((".",), Options(select=("nosuch",)))


def test_one_problem_among_many_files_is_said_with_its_place(project):
    files = {f"{number:04}.toml": TP for number in range(MANY)}
    root = project({**files, "pyproject.toml": "[tool.fp8tune]\nworld-size = 0\n"})
    with pytest.raises(Problem) as error:
        run((".",), Options())
    assert str(error.value) == (
        f"{root}/pyproject.toml: [tool.fp8tune] `world-size` is a number of GPUs"
    )
