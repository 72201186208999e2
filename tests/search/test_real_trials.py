"""What real trials need: versions of packages, ranks and GPUs."""

import pytest

from fp8tune.job import Target
from fp8tune.search import CannotSearch
from fp8tune.search.machine import check_ranks, check_versions, unsafe_versions
from fp8tune.search.options import SearchOptions
from fp8tune.search.plan import config_to_search, plan_for_trials, ranks_of_trial
from fp8tune.search.real_trials import real_trials, this_machine
from tests.metadata import write_metadata
from tests.runners import fake_nvml
from tests.runners.builtin.small import SMALL

OLD = {"torch": "2.9.1", "torchao": "0.18.0"}
NAN = {"torch": "2.14.1", "torchao": "0.17.0"}


@pytest.fixture
def config():
    return config_to_search("a.toml", SMALL.encode(), Target("", 0), "", 1)


def test_a_study_records_the_versions_that_were_allowed(config, tmp_path, monkeypatch):
    write_metadata(tmp_path, OLD)
    monkeypatch.syspath_prepend(str(tmp_path))
    machine, options = this_machine("cpu"), SearchOptions("a.toml", "1m", device="cpu")
    with pytest.raises(CannotSearch, match="'torch>=2\\.11', or go on with"):
        real_trials(options, config, machine)
    allowed = options._replace(allow_versions=True)
    trials = real_trials(allowed, config, machine)
    recorded = {"torch", "torchao", "allowed_versions"}
    assert {k: v for k, v in trials.environment.items() if k in recorded} == {
        **OLD,
        "allowed_versions": ["torchao-for-newer-torch"],
    }
    assert allowed.kept == {
        "budget": "1m",
        "allow_versions": True,
        "device": "cpu",
    }


def test_the_versions_of_the_trainers_own_python(config):
    unsafe = unsafe_versions(config, (), NAN, "cuda")
    command = "; there/python -m pip install 'torchao>=0.18', or go on"
    with pytest.raises(CannotSearch, match=command):
        check_versions(unsafe, "there/python")
    later = unsafe_versions(config, (), NAN | {"torch": "2.16.0"}, "cuda")
    check_versions(later)
    assert [match.checked for match in later] == [False]


IN_BF16 = SMALL.replace('"fp8"', '"bf16"') + "[distributed]\ndp_shard = 2\ntp = 2\n"


def test_ranks_that_run_lift_what_one_rank_cannot_stand_for():
    config = config_to_search("a.toml", IN_BF16.encode(), Target("", 0), "", 1)
    assert ranks_of_trial(config, 4) == 2  # that see different data
    knob = plan_for_trials(config, ("precision",), "cpu").space.knob("precision")
    assert knob.values == ("bf16",)
    options = SearchOptions("a.toml", "1m", device="cpu", ranks=4)
    trials = real_trials(options, config, this_machine("cpu"))
    assert trials.environment["ranks"] == 4
    assert trials.conditions.refusal == ""
    setup = trials.runner("").setup
    assert (setup.ranks, setup.dp_shard) == (4, 2)


def test_one_rank_cannot_stand_for_some():
    config = config_to_search("a.toml", IN_BF16.encode(), Target("", 0), "", 1)
    why = "tensor parallelism of 2 by one rank; --ranks 4 runs all of them on 4 G"
    with pytest.raises(CannotSearch, match=why):
        ranks_of_trial(config, 1)


def test_each_rank_needs_a_gpu(tmp_path, monkeypatch):
    fake_nvml.install(tmp_path, monkeypatch, count=2)
    machine = this_machine("cuda", ranks=4)
    check_ranks(machine, 2)
    with pytest.raises(CannotSearch, match="--ranks 4 needs 4 GPUs, and torch sees 2;"):
        check_ranks(machine, 4)
