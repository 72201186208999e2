"""What KempnerForge's loader makes of odd input, and what it refuses."""

import pytest

TAKEN = {"boolean-for-number", "not-a-number", "not-text", "table-replaced"}
"""Kinds of faults that the loader takes without a word."""


def faults(loaded):
    return [(fault.kind, fault.facts["key"]) for fault in loaded.faults]


def refusals(loaded):
    return [found for found in faults(loaded) if found[0] not in TAKEN]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("8", 8),
        ('"8"', 8),
        ('" 8 "', 8),
        ('"1_000"', 1000),
        ('"+8"', 8),
        ("3.9", 3),
        ("-0.9", 0),
        ("true", True),
        ("false", False),
        ("1e5", 100000),
        ("0x10", 16),
    ],
)
def test_int(load, written, value):
    loaded = load(f"[train]\nseed = {written}\n")
    assert loaded.values["train.seed"] == value
    assert {kind for kind, _ in refusals(loaded)} <= {"value-truncated"}


@pytest.mark.parametrize("written", ['"8.0"', '"1e3"', '"0x10"', '""', '"a"', "nan"])
def test_not_an_int(load, written):
    loaded = load(f"[train]\nseed = {written}\n")
    assert faults(loaded) == [("value-not-convertible", "train.seed")]
    assert loaded.faults[0].facts["type"] == "a whole number"
    assert "train.seed" not in loaded.values


def test_infinity_is_no_int(load):
    loaded = load("[train]\nseed = inf\n")
    assert faults(loaded) == [("value-not-convertible", "train.seed")]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1.0),
        ("1.5", 1.5),
        ('"1.5"', 1.5),
        ('"1e-4"', 1e-4),
        ("true", 1.0),
        ('"inf"', float("inf")),
        ("1e500", float("inf")),
    ],
)
def test_float(load, written, value):
    loaded = load(f"[model]\nrope_theta = {written}\n")
    assert (loaded.values["model.rope_theta"], refusals(loaded)) == (value, [])
    assert type(loaded.values["model.rope_theta"]) is float


@pytest.mark.parametrize("written", ['"half"', '""', "1" + "0" * 400])
def test_not_a_float(load, written):
    loaded = load(f"[model]\nrope_theta = {written}\n")
    assert faults(loaded) == [("value-not-convertible", "model.rope_theta")]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("false", False),
        ('"true"', True),
        ('"True"', True),
        ('"YES"', True),
        ('"1"', True),
        ('"false"', False),
        ('"no"', False),
        ('"on"', False),
        ('"enabled"', False),
        ('""', False),
        ("0", False),
        ("2", True),
        ("0.0", False),
        ("[]", False),
        ("[0]", True),
        ("{}", False),
        ("2024-01-01", True),
    ],
)
def test_bool(load, written, value):
    loaded = load(f"[train]\ncompile_model = {written}\n")
    assert loaded.values["train.compile_model"] is value
    assert {kind for kind, _ in faults(loaded)} <= {"read-as-false"}


@pytest.mark.parametrize(
    ("key", "written", "facts"),
    [
        ("train.seed", "3.9", {"value": 3.9, "result": 3}),
        ("scheduler.warmup_steps", "0.1", {"value": 0.1, "result": 0}),
    ],
)
def test_a_fraction_is_cut_off(load, key, written, facts):
    section, _, name = key.partition(".")
    (fault,) = load(f"[{section}]\n{name} = {written}\n").faults
    assert (fault.kind, fault.facts) == ("value-truncated", {"key": key, **facts})


@pytest.mark.parametrize("written", ['"on"', '"enabled"', '"True "', '"y"'])
def test_a_word_that_is_read_as_false(load, written):
    loaded = load(f"[train]\ncompile_model = {written}\n")
    assert loaded.values["train.compile_model"] is False
    assert faults(loaded) == [("read-as-false", "train.compile_model")]


@pytest.mark.parametrize("written", ['"no"', '"off"', '"FALSE"', '""', '"yes"', "0"])
def test_words_that_mean_what_they_become(load, written):
    assert load(f"[train]\ncompile_model = {written}\n").faults == []


@pytest.mark.parametrize("written", ["5", "[1]", "{}", "true", "2024-01-01", "nan"])
def test_strings_are_taken_as_they_come(load, written):
    loaded = load(f"[optimizer]\nname = {written}\n")
    assert loaded.faults == []
    assert "optimizer.name" in loaded.values


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("train.seed", "[1]"),
        ("train.seed", "{}"),
        ("train.seed", "2024-01-01"),
        ("train.data_seed", "[1]"),
        ("model.moe_shared_experts", "[1]"),
        ("model.ffn_hidden_dim", "[1]"),
        ("scheduler.decay_steps", "[]"),
        ("distributed.nccl_timeout_sec", "{}"),
        ("model.init_std", "[1]"),
        ("checkpoint.keep_last_n", "[1]"),
    ],
)
def test_a_number_that_meets_no_comparison_may_be_anything(load, key, written):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert loaded.faults == []
    assert key not in loaded.values
    assert key in loaded.written


@pytest.mark.parametrize(
    "key",
    [
        "train.batch_size",
        "train.seq_len",
        "train.grad_clip_norm",
        "model.dim",
        "model.max_seq_len",
        "model.num_experts",
        "scheduler.warmup_steps",
        "distributed.dp_shard",
        "profiling.start_step",
        "optimizer.lr",
    ],
)
@pytest.mark.parametrize("written", ["[1]", "{}", "2024-01-01", "07:32:00"])
def test_a_number_that_is_compared_must_be_one(load, key, written):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert faults(loaded) == [("wrong-type", key)]


@pytest.mark.parametrize(
    ("key", "written", "bound"),
    [
        ("train.batch_size", "0", "above 0"),
        ("train.batch_size", "-1", "above 0"),
        ("train.batch_size", "0.9", "above 0 (0.9 becomes 0)"),
        ("train.batch_size", '"0"', "above 0"),
        ("train.batch_size", "false", "above 0"),
        ("optimizer.lr", "0.0", "above 0"),
        ("optimizer.lr", "-inf", "above 0"),
        ("optimizer.weight_decay", "-0.1", "at least 0"),
        ("optimizer.betas", "[0.9, 1.0]", "at least 0 and below 1"),
        ("optimizer.betas", "[-0.1, 0.9]", "at least 0 and below 1"),
        ("optimizer.betas", "[nan, 0.9]", "at least 0 and below 1"),
        ("optimizer.muon_momentum", "0", "above 0 and below 1"),
        ("optimizer.muon_momentum", "1", "above 0 and below 1"),
        ("optimizer.muon_momentum", "true", "above 0 and below 1 (true becomes 1.0)"),
        ("optimizer.muon_momentum", "nan", "above 0 and below 1"),
        ("scheduler.min_lr_ratio", "1.1", "at least 0 and at most 1"),
        ("scheduler.min_lr_ratio", "nan", "at least 0 and at most 1"),
        ("distributed.dp_shard", "0", "-1 or above 0"),
        ("distributed.dp_shard", "-2", "-1 or above 0"),
        ("distributed.tp", "0", "at least 1"),
        ("data.prefetch_factor", "0", "at least 1"),
    ],
)
def test_out_of_range(load, key, written, bound):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert faults(loaded) == [("value-out-of-range", key)]
    assert loaded.faults[0].facts["bound"] == bound
    assert key not in loaded.values


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[train]\nbatch_size = 0\n", "leave it out for the default, 8"),
        ("[optimizer]\nbetas = [1, 2]\n", "leave it out for the default, [0.9, 0.95]"),
        ("[model]\nn_kv_heads = 0\n", "leave it out for the default, 32"),
        ("[[data.phases]]\ndataset_weights = { a = -1 }\n", ""),
    ],
)
def test_out_of_range_tells_the_default(load, text, hint):
    assert load(text).faults[0].facts["hint"] == hint


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("train.batch_size", "true"),
        ("train.grad_clip_norm", "nan"),
        ("train.grad_clip_norm", "inf"),
        ("optimizer.lr", "nan"),
        ("optimizer.betas", "[0, 0.0]"),
        ("optimizer.betas", "[0.9, 0.95, 5.0]"),
        ("scheduler.min_lr_ratio", "0"),
        ("scheduler.min_lr_ratio", "1"),
        ("scheduler.min_lr_ratio", "true"),
        ("distributed.dp_shard", "-1"),
        ("distributed.dp_shard", "true"),
        ("model.ffn_hidden_dim", "-1"),
        ("model.norm_eps", "-1.0"),
        ("model.num_experts", "-3"),
        ("train.loss_fn", '"nosuch"'),
        ("model.moe_top_k", "0"),
        ("model.moe_bias_schedule", '"nosuch"'),
        ("data.hf_image_size", "-1"),
    ],
)
def test_odd_but_accepted(load, key, written):
    section, _, name = key.partition(".")
    assert refusals(load(f"[{section}]\n{name} = {written}\n")) == []


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("[0.9]", "wrong-type"),
        ("[]", "wrong-type"),
        ("5", "wrong-type"),
        ("{}", "wrong-type"),
        ("true", "wrong-type"),
        ('"ab"', "wrong-type"),
        ('["0.9", "0.9"]', "wrong-type"),
        ("[[0.9], 0.9]", "wrong-type"),
    ],
)
def test_betas(load, written, kind):
    loaded = load(f"[optimizer]\nbetas = {written}\n")
    assert faults(loaded) == [(kind, "optimizer.betas")]


@pytest.mark.parametrize(
    ("experts", "kinds"),
    [
        ("", []),
        ("num_experts = 0", []),
        ("num_experts = -1", []),
        ("num_experts = true", ["value-out-of-range"]),
        ("num_experts = 8", ["value-out-of-range"]),
        ("num_experts = [8]", ["wrong-type"]),
        ("num_experts = 'x'", ["value-not-convertible"]),
    ],
)
def test_a_conditional_check_waits_for_its_switch(load, experts, kinds):
    loaded = load(f"[model]\n{experts}\nmoe_frequency = 0\n")
    assert [kind for kind, _ in refusals(loaded)] == kinds


@pytest.mark.parametrize(
    ("key", "written", "kind", "hint"),
    [
        ("train.mixed_precision", '"FP8"', "unknown-precision", 'did you mean "fp8"?'),
        ("train.mixed_precision", '"e4m3"', "unknown-precision", 'did you mean "fp8"?'),
        (
            "train.mixed_precision",
            '"bfloat16"',
            "unknown-precision",
            'did you mean "bf16"?',
        ),
        ("train.mixed_precision", "8", "unknown-precision", 'did you mean "fp8"?'),
        ("train.mixed_precision", "[8]", "unknown-precision", ""),
        ("train.mixed_precision", '"zzz"', "unknown-precision", ""),
        (
            "train.activation_checkpointing",
            "true",
            "value-not-allowed",
            'did you mean "full"?',
        ),
        (
            "train.activation_checkpointing",
            "false",
            "value-not-allowed",
            'did you mean "none"?',
        ),
        (
            "train.activation_checkpointing",
            '" full"',
            "value-not-allowed",
            'did you mean "full"?',
        ),
        ("scheduler.name", '"cosin"', "value-not-allowed", 'did you mean "cosine"?'),
        ("model.sdpa_backend", "5", "value-not-allowed", ""),
        ("checkpoint.export_dtype", '"bf16"', "value-not-allowed", None),
        ("scheduler.wsd_decay_type", '"sqr"', "value-not-allowed", None),
    ],
)
def test_not_allowed(load, key, written, kind, hint):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert faults(loaded) == [(kind, key)]
    assert key not in loaded.values
    if hint is not None:
        assert loaded.faults[0].facts["hint"] == hint


def test_kv_heads_left_out_become_32(load):
    for text in ("", "[model]\n", "[model]\nn_heads = 64\n"):
        loaded = load(text)
        assert loaded.values["model.n_kv_heads"] == 32
        assert "model.n_kv_heads" not in loaded.written


def test_defaults_of_an_empty_file(load, kempnerforge):
    loaded = load("")
    schema = kempnerforge.schema
    always = [s for s in schema.sections if not schema.optional(s)]
    optional = [s for s in schema.sections if schema.optional(s)]
    assert {name for name in loaded.values if "." in name} == {
        f"{section}.{key}"
        for section in always
        for key in schema.classes[schema.section_class(section)]
    }
    assert {name: loaded.values[name] for name in optional} == dict.fromkeys(
        optional, False
    )
    assert (loaded.written, loaded.faults) == (set(), [])


def test_loading_does_not_change_the_defaults(load):
    before = load("")
    load("[train]\nseq_len = 5\n[model]\ndim = 'x'\n[data.phases]\n")
    assert load("") == before


def test_an_optional_section_brings_its_defaults(load):
    values = load("[vlm]\narch = 'mot'\n[vision_encoder]\n").values
    assert (values["vlm"], values["vision_encoder"], values["video"]) == (
        True,
        True,
        False,
    )
    assert values["vlm.max_text_len"] == 512
    assert values["vlm.mot_modalities"] == ["image", "text"]
    assert values["adapter.pool_window"] == 2
    assert values["adapter"] is False
    assert "vlm.moma_gumbel_noise" not in values


def test_a_nested_optional_table(load):
    assert "checkpoint.dyn_ckpt_window.stop" not in load("[checkpoint]\n").values
    loaded = load("[checkpoint.dyn_ckpt_window]\nstart = 5\n")
    found = {
        key.rpartition(".")[2]: value
        for key, value in loaded.values.items()
        if key.startswith("checkpoint.dyn_ckpt_window.")
    }
    assert found == {"start": 5, "stop": 512, "strategy": "power2"}
    assert loaded.written == {
        "checkpoint",
        "checkpoint.dyn_ckpt_window",
        "checkpoint.dyn_ckpt_window.start",
    }


@pytest.mark.parametrize("written", ["5", "[]", "'x'"])
def test_a_nested_table_that_is_none_is_accepted(load, written):
    loaded = load(f"[checkpoint]\ndyn_ckpt_window = {written}\n")
    assert faults(loaded) == [("table-replaced", "checkpoint.dyn_ckpt_window")]


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("train = 5", ["train"]),
        ("model = 'x'", ["model"]),
        ("distributed = []", ["distributed"]),
        ("eval = false", ["eval"]),
        ("optimizer = true", []),
        ("scheduler = 'cosine'", []),
        ("data = 5", []),
        ("checkpoint = 5", []),
        ("metrics = 5\nprofiling = []", []),
        ("vlm = 5", []),
        ("adapter = 5", []),
        ("video = 5", []),
        ("vision_encoder = 5", []),
        ("vlm = 5\nvision_encoder = 5", ["vision_encoder"]),
        ("vlm = 5\nvision_encoder = {num_tokens = 4}", ["vlm"]),
        (
            "vlm = {}\nadapter = 5\nvideo = 5\nvision_encoder = {num_tokens = 4}",
            ["adapter", "video"],
        ),
        ("vlm = {}\nadapter = 5\nvision_encoder = {}", []),
    ],
)
def test_a_section_that_is_no_table(load, text, sections):
    loaded = load(text)
    assert refusals(loaded) == [("section-not-a-table", name) for name in sections]


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("optimizer = true", ["optimizer"]),
        ("[[scheduler]]\nname = 'cosine'", ["scheduler"]),
        ("metrics = 5\nprofiling = []", ["metrics", "profiling"]),
        ("vlm = 5\nvision_encoder = {num_tokens = 4}", []),
        ("vlm = 5", ["vlm"]),
        ("adapter = 5", []),
        ("vlm = {}\nadapter = 5\nvision_encoder = {}", ["adapter"]),
        ("vision_encoder = 5", []),
        ("[optimizer]", []),
    ],
)
def test_a_section_that_fails_only_when_it_is_read(load, text, sections):
    replaced = [key for kind, key in faults(load(text)) if kind == "table-replaced"]
    assert replaced == sections


@pytest.mark.parametrize(
    ("key", "written", "kinds"),
    [
        ("train.batch_size", "true", ["boolean-for-number"]),
        ("train.batch_size", "false", ["value-out-of-range"]),
        ("train.z_loss_weight", "true", ["boolean-for-number"]),
        ("train.compile_model", "true", []),
        ("optimizer.lr", "nan", ["not-a-number"]),
        ("optimizer.lr", "inf", []),
        ("scheduler.min_lr_ratio", "nan", ["value-out-of-range"]),
        ("checkpoint.dir", "5", ["not-text"]),
        ("checkpoint.dir", '"5"', []),
        ("data.tokenizer_path", '["gpt2"]', ["not-text"]),
        ("metrics.wandb_run_name", "7", []),
        ("train.loss_fn", "5", []),
        ("model.sdpa_backend", "5", ["value-not-allowed"]),
    ],
)
def test_values_that_do_not_mean_what_they_say(load, key, written, kinds):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert faults(loaded) == [(kind, key) for kind in kinds]


def test_a_section_that_is_no_table_has_no_values(load):
    loaded = load("optimizer = true\ntrain = 5\n")
    wrong = [k for k in loaded.values if k.startswith(("optimizer.", "train."))]
    assert wrong == []
    assert loaded.written == {"optimizer", "train"}


@pytest.mark.parametrize(
    ("text", "name", "table", "hint"),
    [
        ("[train]\nseqlen = 1", "seqlen", "[train]", "did you mean `seq_len`?"),
        ("[train]\nmax_seq_len = 1", "max_seq_len", "[train]", "`model.max_seq_len`"),
        ("[train]\ntp = 1", "tp", "[train]", "did you mean `distributed.tp`?"),
        ("[train]\nzzzz = 1", "zzzz", "[train]", ""),
        ("[trian]\na = 1", "trian", "a KempnerForge config", "did you mean [train]?"),
        ("[zzzz]\na = 1", "zzzz", "a KempnerForge config", ""),
        ("[data.datasset]", "datasset", "[data]", "did you mean `datasets`?"),
        (
            "[[data.datasets]]\npath = 'x'\npth = 'x'",
            "pth",
            "[data.datasets[0]]",
            "did you mean `path`?",
        ),
        (
            "[checkpoint.dyn_ckpt_window]\nstpo = 1",
            "stpo",
            "[checkpoint.dyn_ckpt_window]",
            "did you mean `stop`?",
        ),
    ],
)
def test_unknown_key(load, text, name, table, hint):
    (fault,) = load(text).faults
    assert fault.kind == "unknown-key"
    assert (fault.facts["name"], fault.facts["table"]) == (name, table)
    assert hint in fault.facts["hint"]
    assert bool(hint) is bool(fault.facts["hint"])


def test_hints_stop_after_twenty_faults(load):
    text = "[train]\n" + "".join(f"seq_len{n} = 1\n" for n in range(30))
    hints = [bool(fault.facts["hint"]) for fault in load(text).faults]
    assert hints == [True] * 20 + [False] * 10


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dim = 4096\nn_heads = 32", ("dim", "model", ["dim", "n_heads"])),
        (
            "seq_len = 1\nbatch_size = 1\n[model]\ndim = 1",
            ("seq_len", "train", ["seq_len", "batch_size"]),
        ),
        (
            "dim = 1\nn_heads = 1\nn_layers = 1\nvocab_size = 1\nqk_norm = true\n"
            "norm_eps = 1.0",
            ("dim", "model", ["dim", "n_heads", "n_layers", "vocab_size", "..."]),
        ),
    ],
)
def test_missing_header(load, text, found):
    (fault,) = load(text).faults
    key, section, names = found
    assert (fault.kind, fault.path) == ("missing-header", (key,))
    assert fault.facts == {"key": key, "names": names, "section": section}


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("dim = 4096", ["dim"]),
        ("dim = 1\nzzz = 1", ["dim", "zzz"]),
        ("dim = 1\nn_heads = 1\n[model]\nn_layers = 1", ["dim", "n_heads"]),
        ("dim = 1\ntp = 1", ["dim", "tp"]),
    ],
)
def test_no_single_header_is_missing(load, text, unknown):
    assert faults(load(text)) == [("unknown-key", key) for key in unknown]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("[[vlm.freeze]]\nfrozen = true", ["vlm.freeze[0].module"]),
        (
            "[[vlm.freeze_schedule]]\n",
            ["vlm.freeze_schedule[0].start_step", "vlm.freeze_schedule[0].specs"],
        ),
        (
            "[[vlm.freeze_schedule]]\nstart_step = 1\nspecs = [{}]",
            ["vlm.freeze_schedule[0].specs[0].module"],
        ),
    ],
)
def test_missing_key(load, text, missing):
    assert faults(load(text)) == [("missing-key", key) for key in missing]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("[vlm]\narch = 'mot'\nmot_image_n_heads = 1", []),
        ("[vlm]\nmot_image_n_heads = 1", ["unknown-key"]),
        ("[vlm]\narch = 'moma'\nmot_image_n_heads = 1", ["unknown-key"]),
        ("[vlm]\narch = 'zzz'\nmot_image_n_heads = 1", ["value-not-allowed"]),
        ("[vlm]\narch = 5\nmot_image_n_heads = 1", ["value-not-allowed"]),
        ("[vlm]\narch = 'zzz'\nnosuch = 1", ["unknown-key", "value-not-allowed"]),
        ("[vlm]\narch = 'cross_attention'\ncross_attention_n_heads = 1", []),
    ],
)
def test_variants(load, text, kinds):
    assert sorted(fault.kind for fault in load(text).faults) == kinds


def test_all_faults_are_collected(load):
    text = """
[zzz]
[train]
seq_len = 0
batch_size = []
seed = "x"
mixed_precision = "fp7"
nosuch = 1
[[data.datasets]]
[[data.datasets]]
path = "x"
weight = 0
"""
    assert sorted(faults(load(text))) == sorted(
        [
            ("unknown-key", "zzz"),
            ("value-out-of-range", "train.seq_len"),
            ("wrong-type", "train.batch_size"),
            ("value-not-convertible", "train.seed"),
            ("unknown-precision", "train.mixed_precision"),
            ("unknown-key", "train.nosuch"),
            ("dataset-without-source", "data.datasets[0]"),
            ("value-out-of-range", "data.datasets[1].weight"),
        ]
    )


def test_a_string_for_a_list_is_taken(load):
    loaded = load("[checkpoint]\nexclude_from_loading = 'a'\n")
    assert loaded.values["checkpoint.exclude_from_loading"] == ["a"]
    assert loaded.faults == []
