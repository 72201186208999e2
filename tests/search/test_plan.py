"""From config and records to a space and its start."""

import json
import shutil

import pytest

from fp8tune.config.own_trainer import add_trainer
from fp8tune.job import Target
from fp8tune.search import CannotSearch
from fp8tune.search.machine import (
    TrialMachine,
    check_worker_gpu,
    other_gpu_note,
    target_gpu,
)
from fp8tune.search.objective import SPEED
from fp8tune.search.plan import (
    config_to_search,
    plan_for_trials,
    study_name,
    world_size_note,
    world_size_warning,
)
from fp8tune.search.real_trials import this_machine
from fp8tune.search.recorded import plan_for_records, plan_replay
from fp8tune.trainers.about import trainers
from fp8tune.trials.record import Record
from tests.conftest import REPOSITORY
from tests.each import each
from tests.runners import fake_nvml
from tests.search import test_knobs
from tests.search.tries import BATCH, COMPILE, PRECISION

CONFIG = b'[train]\nbatch_size = 4\nmixed_precision = "fp8"\ncompile_model = true\n'


def plan(*knobs, allow=()):
    config = config_to_search("a.toml", CONFIG, Target())
    return plan_for_records(config, [Record(k, "oom") for k in knobs], allow)


def test_exactly_the_recorded_knobs_and_values():
    made, records = plan({BATCH: 8, PRECISION: "bf16"}, {BATCH: 4, PRECISION: "fp8"})
    assert [(k.key, k.values, k.role, k.frozen) for k in made.space.knobs] == [
        (BATCH, (4, 8), "micro_batch", False),
        (PRECISION, ("bf16", "fp8"), "precision", True),
    ]
    assert made.space.only == {(1, 0), (0, 1)}
    assert made.baseline == (0, 1)
    assert (made.notes, len(records)) == ((), 2)


def test_a_knob_that_a_record_leaves_out_has_the_given_value():
    made, records = plan({BATCH: 4}, {BATCH: 8, COMPILE: False}, {COMPILE: True})
    assert [r.knobs for r in records] == [
        {BATCH: 4, COMPILE: True},
        {BATCH: 8, COMPILE: False},
        {BATCH: 4, COMPILE: True},
    ]
    assert made.space.values(made.baseline) == {BATCH: 4, COMPILE: True}


STEPS = "train.grad_accum_steps"


def test_records_of_other_steps_are_left_out():
    """The config takes 4 x 1 sequences per step."""
    knobs = {BATCH: 4, STEPS: 1}, {BATCH: 2, STEPS: 2}, {BATCH: 2, STEPS: 1}
    made, records = plan(*knobs)
    assert [record.knobs for record in records] == list(knobs[:2])
    why = "not the 4 sequences per rank and step of the config"
    assert made.notes == (
        f"1 record is left out: {why}; --allow grad_accum includes them",
    )
    for name in ("grad_accum", STEPS):
        assert len(plan(*knobs, allow=(name,))[1]) == 3
    with pytest.raises(CannotSearch, match="no trial to replay: 1 record is left out"):
        plan(knobs[2])


ROWWISE = '[quantize.linear.float8]\nrecipe_name = "rowwise"\n'
TITAN = f"{test_knobs.TITAN}{ROWWISE}".encode()
MEGATRON = b"""\
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --hidden-size 2048 \\
    --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 \\
    --micro-batch-size 2 --global-batch-size 128 --train-iters 10 --lr 1e-4 --bf16
"""


@each(
    ("path", "text", "batch", "changed", "role", "freeing"),
    [
        (
            "a.toml",
            TITAN,
            "training.local_batch_size",
            {"quantize.linear.float8.recipe_name": "tensorwise"},
            "fp8_recipe",
            "fp8",
        ),
        (
            "a.sh",
            MEGATRON,
            "micro_batch_size",
            {"tensor_model_parallel_size": 2},
            "tp",
            "parallel",
        ),
        ("a.sh", MEGATRON, "micro_batch_size", {"precision": "fp8"}, "precision", ""),
        ("a.toml", CONFIG, BATCH, {"optimizer.lr": 0.5}, "optimizer.lr", ""),
        ("a.toml", CONFIG, BATCH, {PRECISION: "bf16"}, "", ""),
    ],
)
def test_records_that_change_what_is_kept_are_left_out(
    path, text, batch, changed, role, freeing
):
    """Whatever key they name; in bf16 they show what FP8 gains."""
    config = config_to_search(path, text, Target("h100", 8, "", "--world-size"))
    own = {key: config.own(key) for key in changed}
    records = [Record({batch: 2, **own}, "oom"), Record({batch: 4, **changed}, "oom")]
    kept, left = plan_for_records(config, records, ())
    takes = freeing or ("fp8" if role == "precision" else role)
    why = f"another value of {role}; --allow {takes} includes them"
    notes = (f"1 record is left out: {why}",) if role else ()
    assert (kept.notes, len(left)) == (notes, 2 - len(notes))
    for name in (takes, *changed):
        allow = (name,) if role else ()
        assert len(plan_for_records(config, records, allow)[1]) == 2


@each(
    ("path", "text", "role", "value", "listed"),
    [
        ("a.sh", MEGATRON, "ac", "foo", "none, selective, full"),
        ("a.toml", TITAN, "precision", "fp4", "bf16, fp8"),
        ("a.sh", MEGATRON, "te_recipe", "rowwise", "delayed, current, block"),
        (
            "a.toml",
            TITAN,
            "fp8_recipe",
            "mxfp8",
            "tensorwise, rowwise, rowwise_with_gw_hp",
        ),
    ],
)
def test_records_of_values_that_a_knob_does_not_have_are_left_out(
    path, text, role, value, listed
):
    config = config_to_search(path, text, Target("h100", 8, "", "--world-size"))
    values = (value, *listed.split(", "))
    records = [Record({role: each}, "oom") for each in values]
    made, left = plan_for_records(config, records, ("precision", role))
    note = f"1 record is left out: `{role}` cannot be {value}: it may be {listed}"
    assert [record.knobs[role] for record in left] == list(values[1:])
    assert made.notes == (note,)


def test_a_record_names_a_key_as_its_file_does(tmp_path, monkeypatch):
    """A key that no file of the job may have is never written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sft.yaml").write_text(
        "model_name_or_path: a/b\nmax_length: 64\nbf16: true\n"
        "per_device_train_batch_size: 2\ngradient_accumulation_steps: 2\n"
    )
    text = b"distributed_type: MULTI_GPU\nnum_processes: 8\n"
    target = Target("h100", 8, "", "--world-size")
    config = config_to_search("launch.yaml", text, target, beside=("sft.yaml",))
    sizes = [{"per_device_train_batch_size": size} for size in (2, 4)]
    records = [{"knobs": knobs, "outcome": "oom"} for knobs in (*sizes, {"foo": 1})]
    (tmp_path / "r.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in records))
    found = plan_replay(config, "r.jsonl", (), SPEED)
    free = {k.key: k.values for k in found.plan.space.knobs if not k.frozen}
    assert free == {"training.per_device_train_batch_size": (2, 4)}
    assert found.notes == [
        "1 record is left out: another value of foo; --allow foo includes them"
    ]


def test_an_unknown_key_starts_nowhere_and_is_said():
    key = "train.nonsense"
    made, _ = plan({key: 1}, {key: 2}, allow=(key,))
    assert made.space.values(made.baseline) == {}
    assert not made.space.has(made.baseline)
    assert made.notes == (
        "`train.nonsense`: the config does not set it, the records have 1, 2; "
        "KempnerForge has no such key",
    )


@pytest.mark.parametrize(
    ("knobs", "allow", "said"),
    [
        ([], (), "have no trial"),
        ([{}], (), "have no knob"),
        ([{BATCH: 1}], ("precison",), "did you mean `precision`"),
        ([{BATCH: 1}], ("???",), r"no such knob$"),
    ],
)
def test_what_cannot_be_planned(knobs, allow, said):
    with pytest.raises(CannotSearch, match=said):
        plan(*knobs, allow=allow)


@pytest.mark.parametrize(
    ("text", "trainer", "said"),
    [
        (
            '[project]\nname = "x"\n[build-system]\n',
            "",
            "a.toml: a Python project file; "
            "search takes TOML configs of KempnerForge, prime-rl, torchtitan",
        ),
        (
            "[training]\n",
            "nosuch",
            f"no trainer named 'nosuch'; known: {', '.join(trainers())}",
        ),
        (
            "[train]\n",
            "kempnerforg",
            "no trainer named 'kempnerforg'; did you mean kempnerforge?",
        ),
    ],
)
def test_what_is_no_config(text, trainer, said):
    with pytest.raises(CannotSearch) as error:
        config_to_search("a.toml", text.encode(), Target(), trainer)
    assert str(error.value) == said


def test_the_same_search_has_the_same_name():
    made, _ = plan({BATCH: 4})
    names = {
        study_name(made, made.about(records="a", budget=budget))
        for budget in ("1h", "1h", "2h")
    }
    assert len(names) == 2
    assert all(name.startswith("a-") for name in names)


def test_a_search_is_for_the_gpu_that_it_runs_on():
    text = b"# fp8tune: gpu=h200\n" + CONFIG
    here = Target("h100-sxm", 0, "--gpu")
    assert config_to_search("a.toml", text, here).job["gpu"] == "h100-sxm"
    assert config_to_search("a.toml", text, Target()).job["gpu"] == "h200"


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"init_error": 9}, "NVML fails: Driver Not Loaded; fix"),
        ({"count": 0}, "no NVIDIA GPU found; run on a GPU node, or rehearse with"),
    ],
)
def test_a_machine_that_shows_no_gpu(tmp_path, monkeypatch, state, why):
    fake_nvml.install(tmp_path, monkeypatch, **state)
    which = shutil.which
    monkeypatch.setattr("shutil.which", lambda n: which(n) if n != "sbatch" else None)
    with pytest.raises(CannotSearch, match=f"^{why}"):
        target_gpu(this_machine("cuda"), "h100")
    with pytest.raises(CannotSearch, match="or plan with --dry-run"):
        target_gpu(this_machine("cuda"), "", "plan with --dry-run")


def test_where_a_cluster_has_gpus(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    said = "no NVIDIA GPU found; run in a job: srun --gpus=1 --pty fp8tune search ..."
    with pytest.raises(CannotSearch, match=said):
        target_gpu(TrialMachine("cuda"), "")


def test_a_worker_needs_a_gpu():
    check_worker_gpu(TrialMachine("cpu", "EPYC"))
    check_worker_gpu(TrialMachine("cuda", "NVIDIA H200"))
    with pytest.raises(CannotSearch, match="no NVIDIA GPU found here; start workers"):
        check_worker_gpu(TrialMachine("cuda"))


@pytest.mark.parametrize(
    ("here", "named", "said"),
    [
        ("NVIDIA H200", "h200", ""),
        (
            "NVIDIA H100 PCIe",
            "h200",
            "memory limit of h200, speeds measured on this NV",
        ),
        ("Odd 9", "h200", "memory limit of h200, speeds measured on this Odd 9"),
        ("Odd 9", "", ""),
    ],
)
def test_trials_on_another_gpu_than_the_configs(here, named, said):
    job = config_to_search("a.toml", CONFIG, Target(named, 0, "--gpu")).job
    machine = TrialMachine("cuda", here)
    found = other_gpu_note(job, machine, extrapolates=True)
    assert found.startswith(said)
    assert bool(found) == bool(said)
    whole = other_gpu_note(job, machine, extrapolates=False)
    here = f"trials run on this {here}, not on {named}: what does not fit here is"
    assert whole.startswith(here * bool(said))
    assert bool(whole) == bool(said)


NOT_SAID = (
    "ac is not varied: no single key says it in the words none, full; it follows from "
    "`train.recompute`"
)


@each(
    ("name", "says", "allowed", "notes"),
    [
        ("key", '"train.recompute"', '["none", "full"]', ()),
        ("constant", "'\"none\"'", '["none", "full"]', ()),
        ("odd_words", '"train.recompute"', '["none", "always"]', (NOT_SAID,)),
    ],
)
def test_what_cannot_be_varied_is_said(tmp_path, name, says, allowed, notes):
    shutil.copytree(REPOSITORY / "docs/own_trainer/run", tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "ours.toml").read_text()
    text = text.replace('ac = "train.recompute"', f"ac = {says}")
    described = tmp_path / f"{name}.toml"
    described.write_text(text.replace('["none", "full"]', allowed))
    data = (tmp_path / "train.toml").read_bytes().replace(b'"full"', b'"none"')
    trainer = add_trainer(str(described))
    config = config_to_search(str(tmp_path / "train.toml"), data, Target(), trainer)
    assert plan_for_trials(config, (), "cpu").notes == notes


TITLE = "# Llama-3 7B - 16 GPUs (4 nodes x 4), FP8\n"
SAID = "# fp8tune: world-size=8\n"
ASKED = Target("", 4, "", "--world-size")
FOR_WORLD = """\
[train]
batch_size = 2
mixed_precision = "fp8"
[distributed]
"""
STAND = "speeds are for a run on"
UNSAID = f"{STAND} 1 GPU, as nothing says how many; --world-size N sets it"
FOR_MORE = (
    "warning: a.toml:1: the title says 16 GPUs; the best on 1 GPU may not be "
    "the best there; give --world-size 16"
)


@pytest.mark.parametrize(
    ("header", "more", "target", "stands", "warning"),
    [
        ("", "", Target(), UNSAID, ""),
        (TITLE, "", Target(), UNSAID, FOR_MORE),
        (TITLE.replace("16", "1"), "", Target(), UNSAID, ""),
        (TITLE, "", ASKED, f"{STAND} 4 GPUs, set by --world-size", ""),
        (
            TITLE + SAID,
            "",
            Target(),
            f"{STAND} 8 GPUs, set by the comment on line 2",
            "",
        ),
        (
            "",
            "dp_shard = 8\n",
            Target(),
            f"{STAND} 8 GPUs, set by the parallel degrees",
            "",
        ),
    ],
)
def test_how_many_gpus_trials_stand_for(header, more, target, stands, warning):
    config = config_to_search(
        "a.toml", f"{header}{FOR_WORLD}{more}".encode(), target, "", 1
    )
    assert (world_size_note(config), world_size_warning(config)) == (stands, warning)
