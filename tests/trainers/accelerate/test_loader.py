"""What a job's files hold for the script, and which of their keys nothing reads."""

import pytest

from fp8tune.trainers.accelerate.loader import trl_keys
from tests.each import each

FILE = "distributed_type: MULTI_GPU\nmixed_precision: fp8\nnum_processes: 8\n"


@each(
    ("key", "version", "meant"),
    [
        ("amax_history_length", "1.15.0", "amax_history_len"),
        ("amax_compute_algorithm", "1.15.0", "amax_compute_algo"),
        ("optimization_level", "1.15.0", "opt_level"),
        ("recipe", "1.15.0", None),
        ("use_mxfp8_block_scaling", "1.10.1", None),
        ("pad_inner_dim", "1.12.0", None),
    ],
)
def test_keys_of_fp8_config_that_nothing_reads(load, key, version, meant):
    (fault,) = load(f"{FILE}fp8_config:\n  {key}: 1\n", version).faults
    assert (fault.kind, fault.path) == ("unread-key", ("fp8_config", key))
    assert fault.facts.get("meant") == meant


@pytest.mark.parametrize("key", ["amax_history_len", "fp8_amax_history_len"])
def test_a_prefix_makes_no_difference(load, key):
    loaded = load(f"{FILE}fp8_config:\n  {key}: 16\n")
    assert (loaded.faults, loaded.values["fp8_config.amax_history_len"]) == ([], 16)


def test_of_a_file_that_is_not_known_nothing_has_a_value(load):
    values = load("training:\n  bf16: true\n").values
    names = {"training", "trl_arguments", "arguments_known"}
    assert {name.partition(".")[0] for name in values} == names
    assert not any(name.startswith("training") for name in load(FILE).values)


@each(
    ("arguments", "faults"),
    [
        ('bf16: "false"', ["text-read-as-true"]),
        ('bf16: "false"\n  packing: true', []),  # TrlParser converts text
        ("bf16: false", []),
        ('torch_compile: "no"', ["text-read-as-true"]),
        ("anything: of the script", []),
        ("fp8: true", ["fp8-argument"]),
        ("mixed_precision: fp8", ["fp8-argument"]),
        ("mixed_precision: bf16", []),
    ],
)
def test_text_in_training_arguments(load, arguments, faults):
    loaded = load(f"{FILE}training:\n  {arguments}\n")
    assert [fault.kind for fault in loaded.faults] == faults


def test_keys_of_trl_are_those_of_the_extraction(repository):
    import tomllib

    words = tomllib.loads((repository / "tools/accelerate/words.toml").read_text())
    assert trl_keys() == set(words["trl"]["keys"])
