"""The rehearsal's config: whatever a search of it chooses, the outcome lints clean."""

from pathlib import Path

import pytest

from fp8tune.job import Target
from fp8tune.lint.engine import check
from fp8tune.search.answer.decide import decide
from fp8tune.search.history import History
from fp8tune.search.machine import environment
from fp8tune.search.plan import (
    config_to_search,
    plan_for_trials,
    ranks_of_trial,
    study_name,
    why_synthetic_data,
)
from fp8tune.search.real_trials import this_machine
from fp8tune.search.write.comments import choices, summary
from fp8tune.search.write.writeback import write_back
from tests.conftest import REPOSITORY
from tests.runners import fake_nvml
from tests.search.tries import ran, trials

PATH = REPOSITORY / "configs" / "rehearsal_cpu.toml"
MORE = {"environment": "CPU, torch 2.13.0+cpu", "rehearsal": True}


@pytest.fixture(scope="module")
def plan():
    config = config_to_search(str(PATH), PATH.read_bytes(), Target("", 1))
    return plan_for_trials(config, (), "cpu")


def test_a_rehearsal_keeps_compile_and_precision(plan):
    frozen = {knob.role for knob in plan.space.knobs if knob.frozen}
    assert frozen == {"compile", "precision"}
    freed = plan_for_trials(plan.config, ("compile",), "cpu").space.knob("compile")
    assert not freed.frozen
    assert not plan_for_trials(plan.config, (), "cuda").space.knob("compile").frozen


def test_whatever_is_chosen_lints_clean(plan, rules):
    space, given = plan.space, plan.baseline
    points = [point for point in space.points(given) if point != given]
    assert len(points) == 11
    for point in points:
        fast = ran(point, 5000, space=space, peak_gib=0.5, more=MORE)
        tried = trials(
            ("baseline", ran(given, 1000, space=space)), ("search", fast), space=space
        )
        found = decide(History(space, given, tried), 60.0)
        assert found.chosen == point
        block = summary(plan, found, "study-1", ())
        after = write_back(plan.config.data, choices(plan, found), block)
        report = check("a.toml", after, rules, Target())
        assert report.diagnostics == []


def identity(text, target, device="cpu"):
    made = plan_for_trials(
        config_to_search("a.toml", text.encode(), target), (), device
    )
    machine = this_machine(device)
    about = environment(made.config.job, machine, synthetic_data=False)
    return study_name(made, made.about(**about))


def test_a_study_is_of_one_target_machine_and_data_set(tmp_path, monkeypatch):
    shard = tmp_path / "a.bin"
    shard.write_bytes(b"\0" * 64)
    text = f'{PATH.read_text()}[data]\ndataset_path = "{tmp_path}"\n'
    text += 'file_pattern = "*.bin"\n'
    one = Target("", 1)
    first = identity(text, one)
    assert identity(text, one) == first
    others = [
        identity(text, Target("", 4, "", "--world-size")),
        identity(text, Target("h200", 1)),
        identity(text, one, "cuda"),
    ]
    shard.write_bytes(b"\0" * 128)
    others.append(identity(text, one))
    shard.rename(tmp_path / "b.bin")
    others.append(identity(text, one))
    assert len({first, *others}) == 6


def test_a_study_is_of_one_gpu_driver_and_allocator(tmp_path, monkeypatch):
    text, one, conf = PATH.read_text(), Target("", 1), "expandable_segments:True"
    names = []
    for name in ("NVIDIA H100 80GB HBM3", "NVIDIA H200"):
        fake_nvml.install(tmp_path, monkeypatch, name=name)
        names.append(identity(text, one, "cuda"))
    rehearsal = identity(text, one, "cpu")
    for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        monkeypatch.setenv(variable, conf)
        names.append(identity(text, one, "cuda"))
    assert len(set(names)) == 4
    assert identity(text, one, "cpu") == rehearsal


@pytest.mark.parametrize(
    ("degrees", "size", "said"),
    [
        ("dp_shard = 2\ndp_replicate = 4\n", "8", "[hybrid-sharding]; KempnerForge "),
        ("dp_replicate = 2\n", "1", "[world-size-not-divisible]; KempnerForge "),
        (
            "dp_replicate = 2\n",
            "",
            "the number of GPUs; give the number of GPUs",
        ),
    ],
)
def test_what_the_trainer_cannot_run_is_not_tried(
    project, fp8tune, degrees, size, said
):
    text = PATH.read_text().replace("dp_shard = -1\n", degrees)
    project({"a.toml": text.replace(" world-size=1", "")})
    asked = ["--device", "cpu", "--budget", "9s"]
    asked += ["--world-size", size] if size else []
    done = fp8tune("search", "a.toml", *asked)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not list(project({}).glob(".fp8tune*"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "the config names no training data"),
        (
            '[data]\ndataset_path = "typo"\n',
            "no file matches `*.npy` in `typo`, where KempnerForge stops",
        ),
        ('[data]\ndataset_path = "."\n', ""),
    ],
)
def test_why_trials_train_on_synthetic_data(project, data, why):
    root = project({"a.toml": f"{PATH.read_text()}{data}"})
    (root / "tokens.npy").touch()
    config = config_to_search("a.toml", Path("a.toml").read_bytes(), Target("", 1))
    assert why_synthetic_data(config) == why


def test_replicas_without_shards_are_shards(project):
    text = PATH.read_text().replace("dp_shard = -1", "dp_shard = 1\ndp_replicate = 4")
    target = Target("", 4, "", "--world-size")
    config = config_to_search("a.toml", text.encode(), target)
    assert ranks_of_trial(config) == 4


def test_a_model_that_a_cpu_cannot_train_is_refused(project, fp8tune):
    large = (
        PATH.read_text()
        .replace("dim = 128", "dim = 8192")
        .replace("n_layers = 2", "n_layers = 80")
        .replace("seq_len = 128", "seq_len = 4096")
    )
    project({"a.toml": large})
    done = fp8tune("search", "a.toml", "--device", "cpu", "--budget", "9s")
    assert (done.code, done.out) == (2, "")
    assert "rehearse a small model, such as configs/rehearsal_cpu.toml" in done.err


def test_a_budget_without_time_for_a_trial_leaves_no_study(project, fp8tune, tmp_path):
    project({"a.toml": PATH.read_text()})
    done = fp8tune("search", "a.toml", "--device", "cpu", "--budget", "1s")
    said = "fp8tune: --budget 1s ended before a trial began; try --budget 2h\n"
    assert (done.code, done.err) == (2, said)
    assert [path.name for path in (tmp_path / ".fp8tune").iterdir()] == [".gitignore"]
