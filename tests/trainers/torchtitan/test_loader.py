"""What torchtitan's config manager makes of a file, by release."""

import tomllib

import pytest

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.trainer import trainer
from tests.each import each

FP8 = '[model]\nconverters = ["quantize.linear.float8"]\n[quantize.linear.float8]\n'


def faults(loaded):
    return [(fault.kind, fault.facts["key"]) for fault in loaded.faults]


@each(
    ("text", "found"),
    [
        ("[training]\nbatch_size = 4\n", "training.batch_size"),
        ("[float8]\nemulate = true\n", "float8"),
        ("[quantize.linear.float8]\nx = 1\n", "quantize.linear.float8.x"),
        ("[parallelism.x]\n", "parallelism.x"),
    ],
)
def test_keys_of_no_release_or_another(load, text, found):
    assert faults(load(text)) == [("unknown-key", found)]


def test_the_first_release_ignores_what_it_does_not_know(load):
    text = "[compile]\nenable = true\n[training]\nseqlen = 4\ncompile = true\n"
    kinds = [("ignored-key", "compile.enable"), ("ignored-key", "training.seqlen")]
    loaded = load(text, "0.1.0")
    assert faults(loaded) == kinds
    assert loaded.values["training.compile"] is True
    assert "compile.enable" not in loaded.values


def test_a_module_may_add_keys(load):
    text = "[job]\ncustom_config_module = 'mine'\n[mine]\nx = 1\n"
    assert faults(load(text)) == []


@each(
    ("written", "value", "found"),
    [
        ("true", True, []),
        ("'false'", True, ["read-as-true"]),
        ("''", False, []),
        ("2", True, []),
    ],
)
def test_switches_are_read_by_pythons_rules(load, written, value, found):
    loaded = load(f"[compile]\nenable = {written}\n")
    assert loaded.values["compile.enable"] is value
    assert [fault.kind for fault in loaded.faults] == found


@each(
    ("text", "kind", "key"),
    [
        ("[training]\nseq_len = [1]\n", "wrong-type", "training.seq_len"),
        (
            "[parallelism]\ndata_parallel_shard_degree = 0\n",
            "value-out-of-range",
            "parallelism.data_parallel_shard_degree",
        ),
        ("model = 'llama3'\n", "section-not-a-table", "model"),
        ("optimizer = 'AdamW'\n", "table-replaced", "optimizer"),
        ("[quantize]\nlinear = 1\n", "table-replaced", "quantize.linear"),
        (
            "[model]\nconverters = ['float8']\n",
            "value-not-allowed",
            "model.converters[0]",
        ),
        (
            f"{FP8}recipe_name = 'rowise'\n",
            "value-not-allowed",
            "quantize.linear.float8.recipe_name",
        ),
        (
            f"{FP8}filter_fqns = 'output'\n",
            "filter-is-text",
            "quantize.linear.float8.filter_fqns",
        ),
        (
            "[optimizer]\nimplementation = 'Fused'\n",
            "not-listed",
            "optimizer.implementation",
        ),
    ],
)
def test_one_fault(load, text, kind, key):
    assert faults(load(text)) == [(kind, key)]


def test_a_converter_of_another_release_names_the_one_that_is_meant(load):
    for version, name, meant in (
        ("0.2.2", "float8", "quantize.linear.float8"),
        ("0.1.0", "quantize.linear.float8", "float8"),
    ):
        (fault,) = load(f"[model]\nconverters = ['{name}']\n", version).faults
        assert (fault.facts["meant"], fault.facts["sure"]) == (meant, True)


def test_a_converter_whose_other_name_is_there_is_removed(load):
    text = "[model]\nconverters = ['float8', 'quantize.linear.float8']\n"
    (fault,) = load(text).faults
    assert fault.path == ("model", "converters")
    assert fault.facts["meant"] == ["quantize.linear.float8"]


@each("key", ["name = 'llama33'", "flavor = '7B'"])
def test_no_fix_writes_another_model(load, key):
    (fault,) = load(f"[model]\n{key}\n").faults
    assert fault.facts["hint"].startswith("did you mean")
    assert not {"meant", "sure"} & set(fault.facts)


@each(
    ("text", "version", "hint", "facts"),
    [
        (
            "[training]\ncompile = true\n",
            "0.2.2",
            "a key of torchtitan 0.1.0; 0.2.2 calls it `compile.enable`",
            {"home": "compile.enable"},
        ),
        (
            "[float8]\nemulate = true\n",
            "0.2.2",
            "a key of torchtitan 0.1.0; 0.2.2 calls it `quantize.linear.float8`",
            {"home": "quantize.linear.float8"},
        ),
        (
            "[float8]\nemulate = true\n[quantize.linear.float8]\nemulate = true\n",
            "0.2.2",
            "a key of torchtitan 0.1.0; 0.2.2 calls it "
            "`quantize.linear.float8.emulate`, which is the same",
            {"gone": "`quantize.linear.float8.emulate` stays"},
        ),
        (
            "[training]\nseed = 1\n[debug]\nseed = 2\n",
            "0.2.1",
            "a key of torchtitan 0.1.0 and 0.2.0; 0.2.1 calls it `debug.seed`, "
            "which has another value: keep one of them",
            {},
        ),
        (
            "[quantize.linear.float8]\nforce_recompute_fp8_weight_in_bwd = true\n",
            "0.2.2",
            "a key of torchtitan 0.1.0; 0.2.2 has nothing in its place",
            {"gone": "torchtitan 0.2.2 has nothing in its place"},
        ),
        (
            "[fault_tolerance]\nsync_steps = 4\n",
            "0.2.2",
            "set `job.custom_config_module = "
            '"torchtitan.components.ft.config.job_config"`',
            {},
        ),
    ],
)
def test_a_key_of_another_release_says_so(load, text, version, hint, facts):
    (fault,) = load(text, version).faults
    found = {name: fault.facts.get(name) for name in ("meant", "sure", "home", "gone")}
    found = {name: value for name, value in found.items() if value is not None}
    assert (fault.facts["hint"], found) == (hint, facts)


@pytest.mark.parametrize("version", ["0.1.0", "0.2.2"])
def test_odd_values_raise_nothing(version):
    rules, name = Rules(read_builtin(), {}), f"torchtitan=={version}"
    for key, _ in trainer(name).schema.dotted_keys():
        for value in ("-1", "nan", "true", '"x"', "[[1]]", "{ a = 1 }"):
            text = f"{key} = {value}\n"
            assert tomllib.loads(text)
            check("a.toml", text.encode(), rules, Target("h100", 8), only=name)
