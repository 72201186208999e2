"""What a job's files hold for the script, and which of their keys nothing reads."""

from fp8tune.trainers.accelerate.loader import trl_keys
from tests.each import each

FILE = "distributed_type: MULTI_GPU\nmixed_precision: fp8\nnum_processes: 8\n"


@each(
    ("key", "version", "meant"),
    [
        ("amax_history_length", "1.15.0", "amax_history_len"),
        ("recipe", "1.15.0", None),
        ("pad_inner_dim", "1.12.0", None),
    ],
)
def test_keys_of_fp8_config_that_nothing_reads(load, key, version, meant):
    (fault,) = load(f"{FILE}fp8_config:\n  {key}: 1\n", version).faults
    assert (fault.kind, fault.path) == ("unread-key", ("fp8_config", key))
    assert fault.facts.get("meant") == meant


@each(
    ("arguments", "faults"),
    [
        ('bf16: "false"', ["text-read-as-true"]),
        ('bf16: "false"\n  packing: true', []),  # TrlParser converts text
        ('torch_compile: "no"', ["text-read-as-true"]),
        ("fp8: true", ["fp8-argument"]),
        ("mixed_precision: fp8", ["fp8-argument"]),
    ],
)
def test_text_in_training_arguments(load, arguments, faults):
    loaded = load(f"{FILE}training:\n  {arguments}\n")
    assert [fault.kind for fault in loaded.faults] == faults


def test_keys_of_trl_are_those_of_the_extraction(repository):
    import tomllib

    words = tomllib.loads((repository / "tools/accelerate/words.toml").read_text())
    assert trl_keys() == set(words["trl"]["keys"])
