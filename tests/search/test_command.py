"""``fp8tune search`` on recorded trials, as people and programs run it."""

import html
from pathlib import Path

import pytest

from tests.search.replayed import CONFIG, RECORDS, answered
from tests.search.tries import (
    BATCH,
    BEST,
    GIVEN,
    OTHER,
    SPACE,
    but,
    every,
    ran,
)


@pytest.mark.parametrize("synthetic", [True, False])
def test_whether_trials_saw_synthetic_data(replay, synthetic):
    records = [but(r, synthetic_data=synthetic) for r in RECORDS]
    _, said = answered(replay, records)
    assert said["synthetic_data"] is synthetic
    written = Path(said["output"]).read_text()
    assert ("; trained on synthetic data, not on yours\n" in written) is synthetic


@pytest.mark.parametrize(
    ("error", "said"), [(0.04, "+-4.0 %"), (None, "error unknown")]
)
def test_a_figure_of_one_gpu_for_many_is_marked_wherever_it_is(replay, error, said):
    how = "rank 0 of 16, plus 3.0 ms of communication a step by published bandwidths"
    more = {"extrapolated": how, "extrapolation_error": error}
    done = replay([but(r, **more) for r in RECORDS], "--output-format", "json")
    assert done.json["extrapolated"] == {"how": how, "error": error}
    written = Path("a.tuned.toml").read_text().replace("\n# fp8tune search:", "")
    whole = f"extrapolated ({said}{' tokens/s' * bool(error)}): {how}"
    for text in (done.err, written):
        assert f" (extrapolated, {said})" in text
        assert whole in text


def codes(said):
    return [finding["code"] for finding in said["findings"]]


def test_terminal_json_comments_and_page_say_the_same(replay, project):
    """The verdict with its gain, and FP8's, in one wording.

    Settings that lack memory have no room in the comments.
    """
    done = replay(RECORDS, "--output-format", "json")
    (page,) = Path().glob(".fp8tune/*/report.html")
    texts = [done.err, html.unescape(page.read_text())]
    text = (project({}) / "a.tuned.toml").read_text()
    texts.append(text.replace("\n# fp8tune search:", ""))
    for finding in done.json["findings"]:
        message = finding["message"].lower()
        in_comments = finding["code"] != "too-little-memory"
        shown = [message in said.lower() for said in texts]
        assert shown == [True, True, in_comments], message


@pytest.mark.parametrize(
    ("gpu", "capacity_gib", "best"),
    [
        ("", {}, 4),
        # 133.5 of 139.8 GiB are 95.5 %: by the target, or by the record
        ("h200", {}, 2),
        ("", {"capacity_gib": 139.8}, 2),
        # the record knows better
        ("h200", {"capacity_gib": 178.4}, 4),
    ],
)
def test_recorded_settings_have_to_leave_memory_too(replay, gpu, capacity_gib, best):
    full = ran(BEST, 150, peak_gib=120.0, reserved_gib=133.5, more=capacity_gib)
    target = ("--gpu", gpu) if gpu else ()
    _, said = answered(replay, [ran(GIVEN, 100, peak_gib=20.0), full], *target)
    assert said["knobs"][BATCH] == best
    lacking = [each["knobs"][BATCH] for each in said["memory_shortage"]]
    assert lacking == [4] * (best == 2)


@pytest.mark.parametrize(
    "others",
    [[ran(BEST, outcome="oom")], [ran(BEST, 150), ran(BEST, outcome="nan")]],
)
def test_why_the_config_stays(replay, others):
    """For other reasons see tests/golden/search_baseline.txt."""
    _, said = answered(replay, [ran(GIVEN, 100), *others])
    assert (said["verdict"], codes(said)[0]) == ("same", "no-other-setting-ran")


def test_how_near_the_next_best_may_be_is_said(replay):
    again = [ran(GIVEN, speed) for speed in (100, 99, 101)]
    _, said = answered(replay, [*again, ran(BEST, 100.5)])
    best = said["findings"][0]
    assert best["code"] == "baseline-best"
    assert best["within"] == pytest.approx(0.012, abs=0.001)


def test_a_config_that_failed_when_measured_again_gives_way(replay):
    slow = ran(OTHER, 90, step_ms=[20.0] * 10)
    given = [ran(GIVEN, 100), ran(GIVEN, outcome="oom")]
    best = [ran(BEST, 150), ran(BEST, outcome="oom")]
    _, said = answered(replay, [*given, *best, slow])
    assert (said["knobs"], said["verdict"]) == (SPACE.values(OTHER), "inconclusive")
    assert "baseline-unreliable" in codes(said)
    code, said = answered(replay, [*given, *best])
    assert (code, codes(said)[0]) == (1, "no-setting-leaves-memory")


@pytest.mark.parametrize("key", ["", "foo\0bar", "train.batch_size.x"])
def test_a_record_with_a_key_that_the_trainer_lacks_is_left_out(replay, key):
    odd = RECORDS[-1]._replace(knobs={**RECORDS[-1].knobs, key: 1})
    chosen = answered(replay, RECORDS)[1]["knobs"]
    assert answered(replay, [*RECORDS, odd])[1]["knobs"] == chosen
    done = replay([*RECORDS, odd])
    assert "note: 1 record is left out: another value of " in done.err


def test_a_knob_that_cannot_be_written_is_kept(replay):
    key = "train.batch_size.x"
    records = [r._replace(knobs={**r.knobs, key: 1}) for r in RECORDS]
    done = replay([*RECORDS, *records], "--allow", key)
    assert done.out.startswith(f"{key} is kept: `train.batch_size` is one value: ")


@pytest.mark.parametrize(
    ("records", "code", "knobs", "verdict"),
    [
        ([ran(GIVEN)] * 5, 0, GIVEN, "same"),
        ([ran(BEST)], 0, BEST, "inconclusive"),
        (
            [ran(GIVEN, outcome="oom"), ran(GIVEN, 100), ran((0, 1, 1, 1), 90)],
            0,
            (0, 1, 1, 1),
            "inconclusive",
        ),
        ([ran(GIVEN, outcome="throttled"), ran(GIVEN)], 0, GIVEN, "same"),
        ([ran(GIVEN, cost_s=0.0), ran(BEST, 150, cost_s=0.0)], 0, BEST, "faster"),
        ([ran(p, outcome="oom") for p in every(SPACE)], 1, None, "inconclusive"),
        (
            [ran(p, outcome="hang", cost_s=1e9) for p in every(SPACE)],
            1,
            None,
            "inconclusive",
        ),
        ([ran(p, outcome="launch") for p in every(SPACE)], 1, None, "inconclusive"),
        ([ran(GIVEN, cost_s=1e6), ran(BEST, cost_s=1e6)], 1, None, "inconclusive"),
    ],
)
def test_odd_records(replay, records, code, knobs, verdict):
    ended, said = answered(replay, records)
    chosen = None if knobs is None else SPACE.values(knobs)
    assert (ended, said["knobs"], said["verdict"]) == (code, chosen, verdict)
    assert said["seconds"] <= 7200
    assert code == 0 or said["output"] is None


ONE_MICRO_BATCH = CONFIG.replace("grad_accum_steps = 8", "grad_accum_steps = 1")
SHARDED = f"# fp8tune: gpu=h100 world-size=16\n{CONFIG}"
OVER_TP = [
    ran(GIVEN, speed)._replace(knobs={BATCH: 2, "distributed.tp": degree})
    for degree, speed in ((1, 100), (2, 150))
]


@pytest.mark.parametrize(
    ("records", "config", "steps"),
    [
        (RECORDS, CONFIG, None),
        (RECORDS, ONE_MICRO_BATCH, (2, 4, "sequences per rank")),
        (OVER_TP, SHARDED.replace('fp8"', 'bf16"'), None),
    ],
)
def test_a_step_of_other_tokens_is_said_in_the_file_too(
    replay, tmp_path, records, config, steps
):
    """The batch is larger than a step; tensor parallelism accumulates more."""
    _, said = answered(replay, records, "--allow", "parallel", config=config)
    known = {each["code"]: each for each in said["findings"]}
    finding = known.get("other-tokens-per-step")
    written = (tmp_path / "a.tuned.toml").read_text()
    if steps is None:
        assert finding is None
        assert "each optimizer step has" not in written
    else:
        assert (finding["before"], finding["after"], finding["unit"]) == steps
        line = f"each optimizer step has {steps[1]:,} {steps[2]}, not {steps[0]:,}: "
        assert f"# fp8tune search: {line}" in written


def test_knobs_that_only_some_records_name(replay, fp8tune):
    knobs = [{BATCH: 2}, {BATCH: 4}, {BATCH: 4, "train.new": 1}]
    records = [
        ran(GIVEN, speed)._replace(knobs=own)
        for own, speed in zip(knobs, (100, 120, 140), strict=True)
    ]
    new = ("--allow", "train.new")
    first = answered(replay, records, *new)
    assert (first[0], first[1]["knobs"]) == (0, knobs[-1])
    assert answered(replay, records, *new) == first
    done = fp8tune("report", first[1]["study"])
    assert (done.code, done.err) == (0, "")
