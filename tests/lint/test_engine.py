"""Rules over one config: what fires, where it points, and what stays unjudged."""

import pytest

from fp8tune.job import Target
from fp8tune.lint.diagnostic import Report
from fp8tune.lint.engine import check
from fp8tune.lint.packs import read_pack
from fp8tune.lint.ruleset import Rules
from fp8tune.toml.document import Unreadable

FP8_TP = """\
[train]
mixed_precision = "fp8"
[distributed]
tp = 4
"""


def labels(finding):
    return [(label.key, *label.region, label.text) for label in finding.labels]


def test_a_finding_whole(lint):
    (found,) = lint(FP8_TP).diagnostics
    assert found._replace(labels=(), fix=None) == (
        "a.toml",
        "fp8-with-tensor-parallel",
        "FP8101",
        "rejected",
        "error",
        "FP8 does not work with tensor parallelism in this trainer: "
        "`distributed.tp = 4`",
        "set `distributed.tp = 1` and shard with FSDP alone, or train in bf16",
        "https://github.com/KempnerInstitute/KempnerForge/blob/5666d0d/kempnerforge/"
        "config/job.py",
        (),
        "",
        None,
    )
    assert labels(found) == [
        ("distributed.tp", 4, 6, 4, 7, "splits every linear over 4 GPUs"),
        (
            "train.mixed_precision",
            2,
            19,
            2,
            24,
            "turns every linear into a Float8Linear",
        ),
    ]
    assert (found.key, found.region) == ("distributed.tp", (4, 6, 4, 7))


def test_lines_are_those_that_findings_point_at(lint):
    assert lint(FP8_TP).lines == {2: 'mixed_precision = "fp8"', 4: "tp = 4"}


def test_findings_stand_in_the_order_of_the_file(lint):
    text = """\
[train]
mixed_precision = "fp8"
compile_model = false
max_steps = 0
[model]
dim = 100
n_heads = 7
zzz = 1
"""
    found = lint(text).diagnostics
    assert [d.region for d in found] == sorted(d.region for d in found)
    assert len(found) >= 4


@pytest.mark.parametrize(
    ("text", "place", "note"),
    [
        ("[train]\nmax_steps = 20\n", (2, 13, 2, 15), True),
        ("[train]\nmax_steps = 20\n[scheduler]\n", (2, 13, 2, 15), True),
        ("[scheduler]\nwarmup_steps = 200000\n", (2, 16, 2, 22), False),
        ("[scheduler]\nwarmup_steps = 200000\n[train]\n", (2, 16, 2, 22), False),
    ],
)
def test_a_key_that_is_left_out_points_at_the_next_best_place(lint, text, place, note):
    (found,) = lint(text).diagnostics
    assert (found.rule, found.key) == (
        "warmup-longer-than-run",
        "scheduler.warmup_steps",
    )
    assert found.region == place
    assert (
        found.labels[0].text.startswith("`scheduler.warmup_steps` is not set") is note
    )


def test_no_two_labels_stand_on_the_same_place(lint):
    for text in (FP8_TP, "[train]\nmax_steps = 20\n", "[model]\nn_heads = 20\n"):
        for found in lint(text).diagnostics:
            regions = [label.region for label in found.labels]
            assert len(regions) == len(set(regions))


@pytest.mark.parametrize(
    ("text", "key", "region"),
    [
        ("[train]\nseq_len = 0\n", "train.seq_len", (2, 11, 2, 12)),
        ("train.seq_len = 0\n", "train.seq_len", (1, 17, 1, 18)),
        ("train = { seq_len = 0 }\n", "train.seq_len", (1, 21, 1, 22)),
        ("[train]\nzzz = 0\n", "train.zzz", (2, 1, 2, 4)),
        ('[train]\n"z z" = 0\n', "train.z z", (2, 1, 2, 6)),
        ("[zzz]\na = 1\n[train]\n", "zzz", (1, 2, 1, 5)),
        (
            "[[data.datasets]]\npath = 'x'\n[[data.datasets]]\nweight = 1\n",
            "data.datasets[1]",
            (3, 8, 3, 16),
        ),
        ("[data]\ndatasets = [{}]\n", "data.datasets[0]", (2, 13, 2, 15)),
        ("[data]\ndatasets = {}\n", "data.datasets[0]", (2, 12, 2, 14)),
        (
            "[vlm]\nfreeze = [{ frozen = true }]\n[vision_encoder]\n",
            "vlm.freeze[0].module",
            (2, 11, 2, 28),
        ),
        (
            "[data]\nphases = [{ dataset_weights = { a = -1 } }]\n",
            "data.phases[0].dataset_weights.a",
            (2, 37, 2, 39),
        ),
    ],
)
def test_where_faults_stand(lint, text, key, region):
    found = lint(text).diagnostics
    assert [(d.key, d.region) for d in found if d.category == "rejected"] == [
        (key, region)
    ]


def test_a_byte_order_mark(rules):
    report = check("a.toml", b"\xef\xbb\xbf[train]\nseq_len = 0\n", rules, Target())
    assert [(d.rule, d.key, d.region) for d in report.diagnostics] == [
        ("byte-order-mark", "", (1, 1, 1, 1)),
        ("value-out-of-range", "train.seq_len", (2, 11, 2, 12)),
    ]


@pytest.mark.parametrize(
    ("data", "region", "message", "line"),
    [
        (
            b"[train]\nseq_len = \n[model]\n",
            (2, 11, 2, 12),
            "not valid TOML: Invalid value",
            "seq_len = ",
        ),
        (
            b"[train]\n[model]\nx = 1\nx = 2\r\n",
            (4, 6, 4, 7),
            "not valid TOML: this key is already set above",
            "x = 2",
        ),
        (
            b"[train]\n[model]\nx = '\xff'\n",
            (3, 6, 3, 7),
            "not valid TOML: not UTF-8: byte 0xff (invalid start byte)",
            "x = '\ufffd'",
        ),
        (
            b"[train]\n[model]\nx = ",
            (3, 5, 3, 6),
            "not valid TOML: Invalid value at the end of the file",
            "x = ",
        ),
    ],
)
def test_invalid_toml(rules, data, region, message, line):
    report = check("a.toml", data, rules, Target(), explicit=False)
    (found,) = report.diagnostics
    assert (found.rule, found.key, found.region) == ("invalid-toml", "", region)
    assert found.message == message
    assert report.lines == {region[0]: line}


def test_invalid_toml_at_a_line_that_does_not_exist(rules):
    report = check("a.toml", b"x = [\n", rules, Target())
    assert report.diagnostics[0].region == (2, 1, 2, 2)
    assert report.lines == {2: ""}


def test_invalid_toml_in_a_folder_is_none_of_ours(rules):
    report = check("a.toml", b"x = [\n", rules, Target(), explicit=False)
    assert (report.diagnostics, report.skipped) == ([], "not TOML")


def test_invalid_toml_without_its_rule():
    found = check("a.toml", b"x = [\n", Rules([], {}), Target())
    assert found == Report("a.toml", [])


def test_faults_without_their_rules(builtin):
    rules = Rules([r for r in builtin if r.name == "fp8-with-tensor-parallel"], {})
    text = FP8_TP + "zzz = 1\n"
    report = check("a.toml", text.encode(), rules, Target())
    assert [d.rule for d in report.diagnostics] == ["fp8-with-tensor-parallel"]


def test_too_large(rules):
    with pytest.raises(Unreadable, match="MiB is no train config"):
        check("a.toml", b"#" * (2 << 20), rules, Target())


@pytest.mark.parametrize(
    ("text", "explicit", "skipped"),
    [
        ("[project]\nname = 'x'\n", True, "a Python project file"),
        ("[model]\ndim = 4096\n", False, "a model fragment for KempnerForge"),
        ("dim = 4096\nn_heads = 32\n", False, "a model fragment for KempnerForge"),
        ("[zzz]\na = 1\n", True, "no table that a known trainer reads"),
        ("[model]\ndim = 4096\n", True, ""),
        ("[train]\nseq_len = 2048\n", False, ""),
    ],
)
def test_skipped(rules, text, explicit, skipped):
    report = check("a.toml", text.encode(), rules, Target(), explicit=explicit)
    assert report.skipped == skipped


def test_a_named_trainer_skips_nothing(rules):
    text = b"[project]\nname = 'x'\n"
    report = check("a.toml", text, rules, Target(), only="kempnerforge")
    assert [(d.rule, d.key) for d in report.diagnostics] == [("unknown-key", "project")]


WORLD = {"degrees-do-not-match-world-size", "world-size-not-divisible"}


@pytest.mark.parametrize(
    ("text", "world_size", "fires", "unjudged"),
    [
        ("[distributed]\ntp = 4\n", 0, [], ["world-size-not-divisible"]),
        ("[distributed]\ntp = 4\n", 8, [], []),
        ("[distributed]\ntp = 4\n", 6, ["world-size-not-divisible"], []),
        ("[distributed]\ntp = 4\n", 2, ["world-size-not-divisible"], []),
        ("[distributed]\ntp = 1\n", 0, [], []),
        (
            "[distributed]\ndp_shard = 4\n",
            0,
            [],
            ["degrees-do-not-match-world-size"],
        ),
        ("[distributed]\ndp_shard = 4\n", 4, [], []),
        (
            "[distributed]\ndp_shard = 4\n",
            8,
            ["degrees-do-not-match-world-size"],
            [],
        ),
    ],
)
def test_world_size(lint, text, world_size, fires, unjudged):
    report = lint(text, world_size=world_size)
    assert [d.rule for d in report.diagnostics if d.rule in WORLD] == fires
    assert {r: f for r, f in report.unjudged.items() if r in WORLD} == dict.fromkeys(
        unjudged, "world_size"
    )


@pytest.mark.parametrize(
    ("gpu", "fires", "unjudged"),
    [
        ("", [], {"gpu-without-fp8": "gpu"}),
        ("a100-80gb", ["gpu-without-fp8"], {}),
        ("a100", ["gpu-without-fp8"], {}),
        ("h100-sxm", [], {}),
    ],
)
def test_gpu(lint, gpu, fires, unjudged):
    report = lint('[train]\nmixed_precision = "fp8"\n', gpu=gpu)
    mine = {r: f for r, f in report.unjudged.items() if r == "gpu-without-fp8"}
    assert ([d.rule for d in report.diagnostics], mine) == (fires, unjudged)


def test_a_gpu_matters_only_where_a_rule_would_need_it(lint):
    assert "gpu-without-fp8" not in lint("[train]\nseq_len = 2048\n").unjudged


def test_a_figure_that_the_gpu_table_lacks_is_not_asked_of_the_user(lint):
    text = '[train]\nactivation_checkpointing = "selective"\n'
    assert lint(text, world_size=8).unjudged["out-of-memory"] == "gpu"
    assert lint(text, gpu="h100-pcie", world_size=8).unjudged == {}


@pytest.mark.parametrize(
    ("header", "target", "origin"),
    [
        ("# fp8tune: gpu=a100-80gb\n", Target(), "the comment on line 1"),
        ("", Target("a100-80gb", 0, "--gpu"), "--gpu"),
        ("", Target("a100-80gb", 0, "pyproject.toml"), "pyproject.toml"),
        (
            "# fp8tune: gpu=h100\n",
            Target("a100-80gb", 0, "--gpu"),
            "--gpu",
        ),
        (
            "# fp8tune: gpu=a100-80gb\n",
            Target("h100-sxm", 0, "pyproject.toml"),
            "the comment on line 1",
        ),
    ],
)
def test_the_origin_of_the_gpu_stands_in_the_message(rules, header, target, origin):
    text = f'{header}[train]\nmixed_precision = "fp8"\n'
    (found,) = check("a.toml", text.encode(), rules, target).diagnostics
    assert found.message == (
        "NVIDIA A100 80 GB (compute capability 8.0) has no FP8 matmul "
        f"(GPU from {origin})"
    )


@pytest.mark.parametrize(
    ("target", "origin"),
    [
        (Target("", 6, "", "--world-size"), "--world-size"),
        (Target("", 6, "", "pyproject.toml"), "pyproject.toml"),
    ],
)
def test_the_origin_of_the_world_size_stands_in_the_message(rules, target, origin):
    text = b"[train]\n[distributed]\ndp_replicate = 4\n"
    (found,) = check("a.toml", text, rules, target).diagnostics
    assert found.message.endswith(f" (world size from {origin})")


SELECTIVE = """\
[model]
n_kv_heads = 8
vocab_size = 128256
ffn_dim_multiplier = 1.3
max_seq_len = 4096
[train]
batch_size = 16
seq_len = 4096
activation_checkpointing = "selective"
"""


@pytest.mark.parametrize(
    ("world_size", "ending"),
    [(16, " (GPU from --gpu; world size from --world-size)")],
)
def test_only_what_is_known_has_an_origin(lint, world_size, ending):
    (found,) = lint(SELECTIVE, gpu="h200", world_size=world_size).diagnostics
    assert found.rule == "out-of-memory"
    assert found.message[found.message.index(" (") :] == ending


def pack(tmp_path, condition, message, category="silent"):
    (tmp_path / category).mkdir()
    (tmp_path / category / "mine.toml").write_text(f"""
name = "mine"
code = "ME1"
summary = "s"
severity = "note"
confidence = "high"
since = "1"
when = '{condition}'
message = "{message}"
references = ["https://example.org"]
[[at]]
key = ["tp", "pp"]
label = "is {{tp}}"
""")
    return Rules(read_pack(str(tmp_path)), {})


@pytest.mark.parametrize(
    ("message", "unjudged"),
    [("on {gpu.title}", {"mine": "gpu"}), ("of {world_size}", {"mine": "world_size"})],
)
def test_a_message_that_needs_an_unknown_fact_is_not_judged(
    tmp_path, message, unjudged
):
    rules = pack(tmp_path, "tp > 1", message)
    report = check("a.toml", b"[train]\n[distributed]\ntp = 2\n", rules, Target())
    assert (report.diagnostics, report.unjudged) == ([], unjudged)


def test_a_rule_of_a_user(tmp_path):
    rules = pack(tmp_path, "tp > 1 or pp > 1", "{key(pp)}: {pp}")
    report = check("a.toml", b"[train]\n[distributed]\npp = 2\n", rules, Target())
    (found,) = report.diagnostics
    assert (found.message, found.category, found.severity) == (
        "distributed.pp: 2",
        "silent",
        "note",
    )
    assert labels(found) == [
        ("distributed.tp", 3, 6, 3, 7, "`distributed.tp` is not set: is 1")
    ]


@pytest.mark.parametrize(
    ("condition", "world_size", "text", "fires"),
    [
        ("defined(world_size) and tp > 1", 0, "tp = 2", False),
        ("defined(world_size) and tp > 1", 8, "tp = 2", True),
        ("not defined(world_size)", 0, "tp = 2", True),
        ("not defined(world_size)", 8, "tp = 2", False),
        ("written(tp)", 0, "tp = 2", True),
        ("written(tp)", 0, "pp = 2", False),
        ("defined(tp)", 0, "pp = 2", True),
        ("defined(tp)", 0, "tp = 0", False),
    ],
)
def test_functions_of_a_name(tmp_path, condition, world_size, text, fires):
    rules = pack(tmp_path, condition, "x")
    target = Target("", world_size, "", "--world-size" * bool(world_size))
    data = f"[train]\n[distributed]\n{text}\n".encode()
    assert bool(check("a.toml", data, rules, target).diagnostics) is fires


def test_severity_is_overridden(builtin):
    rules = Rules(builtin, {"fp8-with-tensor-parallel": "note"})
    (found,) = check("a.toml", FP8_TP.encode(), rules, Target()).diagnostics
    assert found.severity == "note"


def test_rules_of_another_trainer_do_not_run(builtin):
    rule = next(r for r in builtin if r.name == "fp8-with-tensor-parallel")
    other = type(rule)(
        rule.path,
        rule.category,
        {
            **dict.fromkeys(("name", "code"), "x"),
            "severity": "note",
            "trainer": "other",
            "when": "tp > 1",
        },
        "",
    )
    report = check("a.toml", FP8_TP.encode(), Rules([other], {}), Target())
    assert report.diagnostics == []


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_do_not_move_a_finding(lint, ending):
    (found,) = lint(FP8_TP.replace("\n", ending)).diagnostics
    assert found.region == (4, 6, 4, 7)


def test_repeated_checks_give_the_same(lint):
    assert lint(FP8_TP) == lint(FP8_TP)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n_heads = 32", []),
        ("n_heads = 16", ["kv-heads-omitted"]),
        ("n_heads = 20\ndim = 2560", ["kv-heads-omitted"]),
        ("n_heads = 64", ["kv-heads-default"]),
        ("n_heads = 64\nn_kv_heads = 64", []),
        ("n_heads = 64\nn_kv_heads = 32", []),
        ("n_heads = 64\nn_kv_heads = 24", ["kv-heads-do-not-divide-heads"]),
        ("n_kv_heads = 64", ["kv-heads-do-not-divide-heads"]),
        ("n_kv_heads = 0", ["value-out-of-range"]),
    ],
)
def test_kv_heads(fired, text, found):
    assert fired(f"[model]\n{text}\n") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[train]\nbatch_size = "8"', []),
        ("[train]\nbatch_size = 3.9", []),
        ("[train]\nbatch_size = true", []),
        ("[train]\nmax_steps = 1e5", []),
        ("[train]\nseed = [1]", []),
        ("[train]\nbatch_size = [1]", ["wrong-type"]),
        ('[train]\nbatch_size = "8x"', ["value-not-convertible"]),
        ('[train]\ncompile_model = "off"\nmixed_precision = "fp8"', "slow"),
        ('[train]\ncompile_model = "yes"\nmixed_precision = "fp8"', []),
        ("train = 5", ["section-not-a-table"]),
        ("optimizer = true", []),
        ("vlm = 5", ["vlm-without-vision-encoder"]),
        ("vlm = 5\n[vision_encoder]", []),
        ("[train]\n[[distributed]]\ntp = 2", ["section-not-a-table"]),
        ("dim = 4096\nn_heads = 32\nn_kv_heads = 8", ["missing-header"]),
    ],
)
def test_what_surprises_in_the_loader(lint, text, found):
    """Only what the trainer refuses, and what it takes for another compile."""
    wanted = ["fp8-without-compile"] if found == "slow" else found
    report = lint(f"{text}\n")
    kinds = ("rejected", "slow")
    assert [d.rule for d in report.diagnostics if d.category in kinds] == wanted


@pytest.mark.parametrize(
    ("text", "message", "help_line"),
    [
        (
            "[train]\nseqlen = 1",
            "[train] has no key `seqlen`",
            "did you mean `seq_len`?",
        ),
        (
            "[train]\ntp = 1",
            "[train] has no key `tp`",
            "did you mean `distributed.tp`?",
        ),
        (
            "[trian]\nseq_len = 1",
            "a KempnerForge config has no key `trian`",
            "did you mean [train]?",
        ),
        (
            "[vision_encoder]\n[vlm]\nmot_modalities = []",
            "[vlm] has no key `mot_modalities`",
            'did you mean `arch = "mot"`, which has it?',
        ),
        (
            "dim = 4096\nn_heads = 32",
            "keys of [model] stand at the top of the file, where the trainer has none: "
            "dim, n_heads",
            "write [model] above them",
        ),
    ],
)
def test_did_you_mean(lint, text, message, help_line):
    (found,) = (d for d in lint(f"{text}\n").diagnostics if d.category == "rejected")
    assert (found.message, found.help) == (message, help_line)


def test_a_value_is_shown_as_toml_writes_it(lint):
    text = """\
[train]
batch_size = 0
seed = "x"
mixed_precision = "fp7"
max_steps = { a = [1, "b"] }
"""
    assert [found.message for found in lint(text).diagnostics] == [
        "`train.batch_size = 0` is out of range; it must be above 0",
        '`train.seed = "x"` cannot be read as a whole number',
        '`train.mixed_precision = "fp7"` is no precision of this trainer; it takes '
        'exactly ["bf16", "fp16", "fp32", "fp8"]',
        '`train.max_steps = { a = [1, "b"] }` should be a whole number',
    ]
