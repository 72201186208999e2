"""Ways to tune on small places whose truth is known, and what is said of them."""

import itertools
import math
from pathlib import Path

import pytest

from benchmarks.on_gpu import records as recordings
from benchmarks.search.fp8_landscape import landscape
from benchmarks.search.place import NO_FP8, Place, in_process_s, recorded
from benchmarks.search.rules import (
    by_hand,
    deepspeed,
    doubled,
    shipped,
    shrunk,
)
from benchmarks.search.time_to_best import (
    ARMS,
    main,
    of_case,
    page,
    picture,
    reached,
    row,
    share_at,
)
from fp8tune.job import Target
from fp8tune.search.plan import config_to_search
from fp8tune.trials.record import Record
from fp8tune.trials.space import Knob, Space
from tests.each import each

SPACE = Space(
    [
        Knob("batch", (1, 2, 4, 8), "micro_batch"),
        Knob("ac", ("none", "full"), "ac"),
        Knob("compile", (False, True), "compile"),
        Knob("precision", ("bf16", "fp8"), "precision"),
    ]
)
NEEDED = {"none": 9.0, "full": 4.0}
"""GiB of a sequence, by AC."""


def small_place() -> Place:
    """Return a place of 40 GiB: each change is faster, and FP8 in eager mode is NaN."""
    found: dict[tuple[int, ...], list[Record]] = {}
    for point in itertools.product(range(4), range(2), range(2), range(2)):
        v = SPACE.values(point)
        gib = 5 + v["batch"] * NEEDED[v["ac"]]
        speed = 100.0 * v["batch"] / (v["batch"] + 1)
        speed *= 1 + 0.3 * (v["ac"] == "none") + 0.2 * v["compile"]
        speed *= 1.25 if v["precision"] == "fp8" else 1.0
        outcome = "oom" if gib > 40 else "ok"
        if v["precision"] == "fp8" and not v["compile"]:
            outcome = "nan"
        record = Record(v, outcome, cost_s=60.0)
        if outcome == "ok":
            record = record._replace(
                tokens_per_second=speed,
                peak_gib=gib,
                reserved_gib=gib,
                step_ms=(1000.0,) * 10,
                import_s=20.0,
            )
        found[point] = [record]
    speeds = {p: r[0].tokens_per_second for p, r in found.items() if r[0].ok}
    given = SPACE.point(
        {"batch": 1, "ac": "full", "compile": False, "precision": "bf16"}
    )
    return Place("small", SPACE, given, found, speeds, {}, 40.0)


def tried(rule) -> list[str]:
    """Return the settings that a rule tries on the small place."""
    place, shown = small_place(), []
    tries = rule(place, 0)
    point = next(tries, None)
    while point is not None:
        shown.append(" ".join(str(v).lower() for v in SPACE.values(point).values()))
        try:
            point = tries.send(place.records[point][0])
        except StopIteration:
            break
    return shown


DOUBLED = [f"{batch} full false bf16" for batch in (1, 2, 4, 8)]
ORDERS = [
    (doubled, DOUBLED),
    (shrunk, DOUBLED[3:]),
    (deepspeed, [DOUBLED[0], DOUBLED[3], DOUBLED[2]]),
    (
        by_hand,
        [
            *DOUBLED,
            *(f"{batch} none false bf16" for batch in (8, 4, 2)),
            "8 full true bf16",
            "8 full true fp8",
        ],
    ),
    (shipped, ["1 full true fp8"]),
]


@each(("rule", "expected"), ORDERS)
def test_the_order_of_a_rule(rule, expected):
    assert tried(rule) == expected


def test_a_trial_in_process_saves_the_import_and_most_steps():
    record = small_place().records[small_place().given][0]
    assert in_process_s(record) == pytest.approx(60 - 20 - 10 + 3)


def test_shares_are_of_the_best_setting_that_leaves_memory_free():
    place = small_place()
    full = SPACE.point({"batch": 8, "ac": "full", "compile": True, "precision": "fp8"})
    assert place.nearly_full(full)
    none = SPACE.point({"batch": 2, "ac": "none", "compile": True, "precision": "fp8"})
    assert place.speeds[none] == pytest.approx(place.best)
    assert place.share(full) == 1.0
    eager = SPACE.in_precision(place.given, "fp8")
    assert (place.share(eager), place.why_wrong(eager)) == (0.0, "nan")


def test_when_a_share_is_reached_for_good():
    own = {"shares": [(0.0, 0.5), (3.0, 1.0), (4.0, 0.0), (9.0, 0.97)]}
    assert [share_at(own, at) for at in (0, 3.5, 5, 60)] == [0.5, 1.0, 0.0, 0.97]
    assert [reached(own, share) for share in (0.4, 0.95, 0.99)] == [9.0, 9.0, math.inf]
    assert reached({"shares": [(0.0, 1.0)]}, 0.99) == 0.0


def test_all_ways_on_a_landscape():
    rows = [of_case((arm, "900003")) for arm in ARMS if arm != "GP"]
    for own in rows:
        times = [at for at, _ in own["shares"]]
        assert times == sorted(times)
        assert own["shares"][0] == rows[0]["shares"][0]
        assert 0 < own["minutes"] <= 122
        assert own["arm"] in page(rows, "# A page")
    ours = rows[0]
    assert not ours["wrong"]
    assert share_at(ours, 120) >= 0.95
    assert picture(rows, "A title").startswith(b"<?xml")


def test_wrong_settings_run_on_landscapes():
    seen = set()
    for place in map(landscape, range(900_000, 900_012)):
        assert place.is_correct(place.given)
        assert place.best == max(
            place.speeds[p]
            for p in place.space.points(place.given)
            if place.is_correct(p) and not place.nearly_full(p)
        )
        seen.update(map(place.why_wrong, place.space.only))
    assert {"oom", "nan", "compile", "user", NO_FP8} <= seen
    assert {"losses: outside", "losses: diverged"} <= seen


CONFIG = """\
[train]
batch_size = 1
grad_accum_steps = 4
compile_model = true
mixed_precision = "fp8"
activation_checkpointing = "full"
"""


def test_recorded_trials_are_a_place(tmp_path: Path, capsys):
    path = tmp_path / "h100.jsonl"
    target = Target("h100", 1, "--gpu", "--world-size")
    config = config_to_search("h100.toml", CONFIG.encode(), target)
    keys = "train.batch_size", "train.mixed_precision"
    for (batch, name), matmuls in zip(
        itertools.product((1, 2), ("fp8", "bf16")), (9, 0, 0, 0), strict=True
    ):
        speed = 1000.0 * batch * (1.3 if name == "fp8" else 1)
        record = Record(
            dict(zip(keys, (batch, name), strict=True)), "ok", speed, cost_s=30
        )
        recordings.add(path, config, record._replace(float8_matmuls=matmuls))
    place = recorded(path)
    silent = place.space.point(dict(zip(keys, (2, "fp8"), strict=True)))
    assert place.wrong == {silent: NO_FP8}
    assert place.best == 2000
    assert row("fp8tune", place, 0)["wrong"] == ""
    assert row("by hand", place, 0)["wrong"] == NO_FP8
    rows = tmp_path / "rows.jsonl"
    asked = ["--records", str(path), "--rows", str(rows), "--arms", "fp8tune", "random"]
    assert main(asked) == 0
    told, lines = capsys.readouterr().out, rows.read_text()
    assert "| random | 1 |" in told
    assert main(asked) == 0
    assert (capsys.readouterr().out, rows.read_text()) == (told, lines)
