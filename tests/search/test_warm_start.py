"""Where a search starts: which earlier study it takes, says, refuses and keeps to."""

import json
import os
import shutil

import pytest

from fp8tune import __version__
from fp8tune.search import CannotSearch
from fp8tune.search.calibrate import keep, measured
from fp8tune.search.objective import ENERGY, SPEED
from fp8tune.search.sampler import EarlierTrial, Expected
from fp8tune.search.sampler.memory import USABLE
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.search.warm_start import (
    WarmStart,
    choose_start,
    compare_study,
    earlier_trials,
    similar_studies,
    trials_of_start,
)
from tests.report.studies import FOUND, H200, MINE, WHOLE, config, plan, told
from tests.search.tries import (
    AC,
    BATCH,
    BEST,
    COMPILE,
    GIVEN,
    OTHER,
    PRECISION,
    SPACE,
    but,
    ran,
)

HERE = {
    "device": "cuda",
    "machine": "NVIDIA H200",
    "driver": "570.1",
    "allocator": "default",
    "torch": "2.13.0",
    "torchao": "0.18.0",
    "fp8tune": __version__,
    "allow": [],
}


@pytest.fixture
def studies(tmp_path):
    """Leave a study of a config under a name; the folder of all studies."""

    def leave(name="old", text=None, pairs=WHOLE, target=H200, **about):
        made = plan(text or config(layers=24), target=target)
        kept = Study(made.space, str(tmp_path / name))
        kept.describe(made.about(**{**HERE, **about}))
        for stage, record in pairs:
            kept.add(stage, record)
        return str(tmp_path)

    return leave


def begun(studies, asked="", made=MINE, **about):
    here = made.about(**{**HERE, **about})
    return choose_start(made, here, os.path.join(studies, "own"), studies, asked)


def test_a_similar_study_is_started_from_and_named(studies):
    folder = studies()
    found = begun(folder)
    assert found[:3] == (
        os.path.join(folder, "old"),
        len(WHOLE),
        "starts from old: same GPU and versions; layers 32 instead of 24",
    )
    past = [
        (one.params, one.failed, one.tokens_per_second)
        for one in trials_of_start(MINE, MINE.about(**HERE), found, SPEED)
    ]
    assert past == [
        (record.knobs, False, record.tokens_per_second) for _, record in WHOLE
    ]
    assert {run.quantity for run in found.runs} == {"memory", "out-of-memory"}


def test_a_rehearsal_starts_from_one_on_the_same_cpu(studies):
    here = {"device": "cpu", "machine": "EPYC, 2 cores", "driver": ""}
    folder = studies(**here)
    said = "starts from old: same CPU and versions; layers 32 instead of 24"
    assert begun(folder, **here).note == said
    assert begun(folder, **here | {"machine": "EPYC, 4 cores"}) == WarmStart()


def test_only_trials_that_tell_the_objective_are_evidence_of_it(studies):
    """A trial whose watts are not known did not fail."""
    watts = [
        (stage, but(record, tokens_per_joule=2.0)) for stage, record in WHOLE[5:]
    ]  # the confirmation
    folder = studies(pairs=[*WHOLE[:5], *watts])
    found = begun(folder, objective=ENERGY)
    past = trials_of_start(MINE, MINE.about(**HERE), found, ENERGY)
    speeds = [one.tokens_per_second for one in past]
    assert speeds == [0.0] + [2.0] * len(watts)  # what ran out of memory, still
    assert not any(one.failed for one in past)


def test_a_study_that_tells_nothing_of_the_objective_is_none(studies):
    assert begun(studies(), objective=ENERGY).study == ""
    with pytest.raises(CannotSearch, match="have no tokens per joule"):
        begun(studies(), "old", objective=ENERGY)


def test_the_same_model_is_said_to_be(studies):
    assert begun(studies(text=config())).note.endswith("; the same model")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("n_kv_heads = 16", "key/value heads"),
        ("num_experts = 8\nmoe_top_k = 2", ""),
    ],
)
def test_another_model_is_not_the_same(studies, keys, said):
    found = begun(studies(text=config(**{"[model]": f"[model]\n{keys}"})))
    assert said in found.note
    assert "the same model" not in found.note


@pytest.mark.parametrize(
    "how",
    [
        {"text": config(layers=15)},
        {"text": config(dim=8448)},
        {"text": config(**{"[model]": "[model]\ntie_embeddings = true"})},
        {"text": config(**{'"fp8"': '"bf16"'})},
        {"text": config() + '[optimizer]\nname = "muon"\n'},
        {"target": H200._replace(world_size=2)},
        {"target": H200._replace(gpu="h100")},
        {"machine": "NVIDIA H200 NVL"},
        {"device": "cpu"},
        {"records": "digest"},
        {"pairs": FOUND},
        {"pairs": []},
    ],
)
def test_what_is_not_similar(studies, how):
    assert begun(studies(**how)) == WarmStart()


@pytest.mark.parametrize("name", ["torch", "torchao", "driver", "allocator", "fp8tune"])
def test_what_is_stale_is_said_and_not_used(studies, name):
    found = begun(studies(**{name: "0.0.9"}))
    said = f"old is not used: it was measured with {name} 0.0.9, not {HERE[name]}"
    assert (found.study, found.note) == ("", said)


def test_the_nearest_is_taken_and_a_stale_one_not_before_it(studies):
    studies("same", text=config(), torch="2.12.0")
    studies("far", text=config(layers=20))
    folder = studies("near", text=config(layers=28))
    assert begun(folder).study == os.path.join(folder, "near")
    names = [
        one.study.name
        for one in similar_studies(MINE, MINE.about(**HERE), folder, "own")
    ]
    assert names == ["near", "far", "same"]


def test_its_own_folder_is_no_other_study(studies):
    folder = studies("own", text=config())
    assert similar_studies(MINE, MINE.about(**HERE), folder, f"{folder}/own") == []


def test_none_is_none_and_a_replay_asks_for_one(studies):
    folder = studies()
    assert begun(folder, "none").study == ""
    replays = studies("again", text=config(), records="x")
    assert begun(replays, records="y") == WarmStart()
    found = begun(replays, "again", records="y")
    assert found.note == "starts from again: another replay; the same model"


@pytest.mark.parametrize(
    ("asked", "how", "said"),
    [
        ("nowhere", {}, "no study nowhere in .*; there are old"),
        ("old", {"pairs": FOUND}, "it is not finished"),
        (
            "old",
            {"torch": "2.12.0"},
            "it was measured with torch 2.12.0, not 2.13.0",
        ),
        ("old", {"text": config(layers=80)}, "layers 32 instead of 80 is too far"),
        ("old", {"machine": "GH200"}, "its machine is GH200, not NVIDIA H200"),
    ],
)
def test_what_is_asked_for_and_cannot_be(studies, asked, how, said):
    with pytest.raises(CannotSearch, match=f"--start-from.*: {said}"):
        begun(studies(**how), asked)


def test_a_search_that_goes_on_keeps_its_start(studies):
    folder = studies()
    first = begun(folder)
    own = Study(MINE.space, os.path.join(folder, "own"))
    own.describe(MINE.about(**HERE, start=first.data()))
    studies("nearer", text=config())
    assert begun(folder) == first
    shutil.rmtree(first.study)
    assert trials_of_start(MINE, MINE.about(**HERE), begun(folder), SPEED) == []


@pytest.mark.parametrize(
    "start", [None, [], {}, 1, {"study": "x"}, {"study": "x", "runs": [1]}]
)
def test_a_start_that_anybody_wrote(studies, start):
    folder = studies("own", start=start)
    assert begun(folder) == WarmStart()


@pytest.mark.parametrize("text", ["", "{", "[" * 10**5 + "\n", "nonsense\nnonsense\n"])
def test_studies_that_cannot_be_read_are_passed_over(studies, text):
    folder = studies()
    with open(f"{folder}/old/study.journal", "w") as file:
        file.write(text)
    assert begun(folder) == WarmStart()


def test_a_fifo_is_no_study(studies):
    folder = studies()
    os.unlink(f"{folder}/old/study.journal")
    os.mkfifo(f"{folder}/old/study.journal")
    assert begun(folder) == WarmStart()


def test_only_for_this_gpu_and_these_versions_runs_correct_the_estimate(tmp_path):
    made = plan(config(layers=28))
    records = [record for _, record in WHOLE]
    kept = [
        told(BEST, 150, more={"versions": {"torch": f"{version}+cu128"}})
        for version in ("2.13.0", "2.12.0")
    ]
    assert keep(str(tmp_path), made.config.job, kept[:1]) == ""
    assert keep(str(tmp_path), made.config.job, kept[1:]) == ""
    mine = measured(made.config.job, kept[:1])
    assert begun(str(tmp_path)).runs == tuple(mine)
    assert (
        begun(str(tmp_path), made=plan(config(), target=H200._replace(gpu="h100"))).runs
        == ()
    )
    assert begun(str(tmp_path), device="cpu").runs == ()
    assert measured(made.config.job, records)


def test_calibration_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "calibration.jsonl").write_text("nonsense\n")
    said = begun(str(tmp_path)).note
    assert said.startswith("the estimate is not corrected: ")
    assert said.endswith("calibration.jsonl:1: not a measured run")
    odd = keep(str(tmp_path), MINE.config.job, [told(BEST, 150)])
    assert odd.startswith("the estimate is not corrected by this study: ")


def test_what_is_written_is_read_again(studies):
    found = begun(studies())
    said = json.loads(json.dumps(found.data()))
    assert said["trials"] == len(WHOLE)
    assert compare_study(said["study"], MINE, MINE.about(**HERE)).wrong == ""


RECORD = ran(BEST, 200, peak_gib=40.0, more={"capacity_gib": 80.0})


def test_a_record_becomes_a_trial_of_this_space():
    """Sequences of another length count by their tokens; missing keys are None."""
    bare = RECORD._replace(knobs={BATCH: 4, AC: "full", "train.other": 1})
    found = list(earlier_trials(SPACE, [RECORD, bare], lambda _: Expected(0, 190), 0.4))
    values = {"tokens_per_second": 200.0}
    values |= {"memory_share": 40.0 / (80.0 * USABLE)}
    values |= {"expected_tokens_per_second": 190}
    whole = {BATCH: 1.6, AC: "full", COMPILE: True, PRECISION: "fp8"}
    lacking = {BATCH: 1.6, AC: "full", COMPILE: None, PRECISION: None}
    assert found == [EarlierTrial(params=p, **values) for p in (whole, lacking)]


def proposal(*records):
    """The first proposal beside the records of an earlier study."""
    study = Study(SPACE)
    study.add("baseline", ran(GIVEN, 100, peak_gib=20.0))
    earlier = list(earlier_trials(SPACE, records))
    return Strategy(study, GIVEN, earlier=earlier).propose(study.trials)


@pytest.mark.parametrize(
    "change", [{PRECISION: "fp16"}, {BATCH: "many"}, {BATCH: 0}, {AC: None}]
)
def test_values_that_the_space_does_not_have_change_nothing(change):
    record = ran(OTHER, 900)
    record = record._replace(knobs=record.knobs | change)
    assert proposal(record) == proposal()


def test_an_earlier_study_leads_to_what_was_fast_there():
    fast, slow = (
        proposal(ran(GIVEN, 1000), ran(OTHER, speed), ran(BEST, 1100))
        for speed in (1500, 700)
    )
    assert SPACE.cell(fast.point) == SPACE.cell(OTHER)
    assert SPACE.cell(slow.point) != SPACE.cell(OTHER)
