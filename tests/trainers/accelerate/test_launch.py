"""What ends ``accelerate launch`` before the script starts."""

import pytest

from fp8tune.formats.document import Unreadable
from tests.each import each

FILE = "distributed_type: MULTI_GPU\nmixed_precision: fp8\nnum_processes: 8\n"
FSDP = FILE.replace("MULTI_GPU", "FSDP") + "fsdp_config:\n  fsdp_version: 2\n"


@each(
    ("text", "faults"),
    [
        (FSDP, []),
        (FILE.replace("fp8", "fp9"), [("value-not-allowed", "mixed_precision")]),
        ("num_processes: 8\n", [("missing-key", "distributed_type")]),
        (FILE + "num_machines:\nmachine_rank:\n", []),  # these too
        ("distributed_type: 'NO'\n", []),
        (
            FILE + "fp8_config: {override_linear_precision: [true]}\n",
            [("launch-refused", "fp8_config.override_linear_precision")],
        ),
        (
            FILE + "dynamo_config: {dynamo_backend: NO}\n",
            [("value-not-allowed", "dynamo_config.dynamo_backend")],
        ),
    ],
)
def test_refusals(load, text, faults):
    assert [(fault.kind, fault.facts["key"]) for fault in load(text).faults] == faults


def test_releases_differ(load):
    text = FILE + "dynamo_config: {backend: nope}\nipex_config: {ipex: true}\n"
    kinds = {v: [f.kind for f in load(text, v).faults] for v in ("1.12.0", "1.14.0")}
    assert kinds == {
        "1.12.0": ["unread-key"],  # `backend` alone is not dynamo's
        "1.14.0": ["unknown-key", "value-not-allowed"],
    }


NO_COUNT = FILE.replace("num_processes: 8\n", "")


@each(
    ("words", "text", "faults", "processes"),
    [
        ("--quiet", NO_COUNT, ["num_processes"], -1),
        ("--quiet", FILE + "num_machines:\n", ["num_machines"], 8),
        ("--num_machines=2", FILE + "num_machines:\nmachine_rank: 1\n", [], 8),
        ("--num_processes 4 --main_process_ip _ train.py --x", NO_COUNT, [], 4),
        ("--mixed-precision fp9", FILE, ["mixed_precision"], 8),
    ],
)
def test_options_of_the_command(load, words, text, faults, processes):
    """The command gives what the file lacks, and goes before the file."""
    loaded = load(text, command=words)
    assert [fault.facts["key"] for fault in loaded.faults] == faults
    assert loaded.values["num_processes"] == processes


@each(
    ("words", "values"),
    [
        ("--fp8_backend te", {"backend": "te"}),
        ("--fp8_backend=ao --fp8-margin 2", {"backend": "ao", "margin": 2}),
        ("--fp8_pad_inner_dim 0 --fp8_format E4M3 t.py", {"pad_inner_dim": "0"}),
        ("--fp8_use_autocast_during_eval t.py", {"use_autocast_during_eval": True}),
        (
            "--fp8_override_linear_precision true,no,0",
            {"override_linear_precision": [True, False, False]},
        ),
    ],
)
def test_options_of_fp8(load, words, values):
    """They go before the file's, and a finding points at the word."""
    loaded = load(FILE + "fp8_config: {backend: AO, margin: 1}\n", command=words)
    for name, value in values.items():
        assert loaded.values[f"fp8_config.{name}"] == value
        assert loaded.argument(("fp8_config", name)).text.startswith("--fp8")


@each(
    ("words", "error"),
    [
        ("--use_fsdp", "fp8tune does not follow `--use_fsdp`"),
        ("--fp8_backend AO", "`accelerate launch` does not take `--fp8_backend AO`"),
        ("--fp8_margin x", "`--fp8_margin x` is not a number"),
    ],
)
def test_options_that_are_not_followed(load, words, error):
    with pytest.raises(Unreadable, match=error):
        load(FILE, command=words)
