"""Why values were chosen, and what follows them."""

import pytest

from fp8tune.job import Target
from fp8tune.search.answer import answer
from fp8tune.search.plan import plan_for_records, read_config
from fp8tune.search.reasons import choices
from fp8tune.search.writeback import MARK, Choice
from tests.search.replayed import BEST_TWIN
from tests.search.tries import (
    AC,
    BATCH,
    BEST,
    COMPILE,
    GIVEN,
    OTHER,
    SPACE,
    ran,
    trials,
)
from tests.search.tries import CONFIG as TRAIN

CONFIG = TRAIN.replace("= 8\n", "= {steps}\n")


def reasons(*records, steps=4, study="a-1", text=CONFIG, gpus=0):
    data = text.format(steps=steps).encode()
    config = read_config("a.toml", data, Target("", gpus))
    plan, whole = plan_for_records(config, records, ())
    tried = trials(*(("search", record) for record in whole))
    return choices(plan, answer(plan.space, plan.given, tried, 60.0), study)


def test_the_whole_reason():
    versions = {"torch": "2.13", "torchao": "0.18.0", "cuda": "13.0", "driver": ""}
    versions["allocator"] = "PYTORCH_ALLOC_CONF=expandable_segments:True"
    where = {"environment": "H200, torch 2.13", "versions": versions}
    more = {"capacity_gib": 139.8, **where}
    best = ran((2, 0, 1, 1), 15000, peak_gib=80.7, more=more)
    made = reasons(ran(GIVEN, 10000), ran(BEST, 12000), best)
    gain = "with the other changes +50.0 % tokens/s (+45.9 to +54.2)"
    evidence = (
        "unsure: not both measured again",
        "peak memory 80.7 of 139.8 GiB",
        f"runner-up: {BATCH} = 4",
        "H200, torch 2.13, torchao 0.18.0, allocator "
        "PYTORCH_ALLOC_CONF=expandable_segments:True",
        "study a-1, trial 3 of 3",
    )
    speeds = "10,000 tokens/s -> 15,000 tokens/s"
    assert made == [
        Choice(BATCH, 4, (f"2 -> 4: {gain}, {speeds}", *evidence)),
        Choice(AC, "none", (f"full -> none: {gain}, {speeds}", *evidence)),
        Choice(
            "train.grad_accum_steps",
            2,
            ("2 x 4 -> 4 x 2 sequences per rank and step",),
        ),
    ]


@pytest.mark.parametrize(
    ("gpus", "said"),
    [(0, []), (1, ["for a run on 1 GPU"]), (16, ["for a run on 16 GPUs"])],
)
def test_how_many_gpus_it_is_for_stands_in_the_file(gpus, said):
    made = reasons(ran(GIVEN, 10000), ran(BEST, 12000), gpus=gpus)
    (batch,) = (choice for choice in made if choice.key == BATCH)
    assert [one for one in batch.reasons if "GPU" in one] == said


@pytest.mark.parametrize(("rehearsal", "where"), [(False, ""), (True, "on this CPU ")])
def test_that_bf16_is_faster_stands_in_the_file(rehearsal, where):
    records = ran(GIVEN, 100), ran(BEST, 120), ran(BEST_TWIN, 150)
    more = {"rehearsal": rehearsal}
    made = reasons(*(record._replace(more=more) for record in records))
    said = f"{where}bf16 is faster: FP8 does not pay here, it reaches 80.0 % ("
    assert made[0].reasons[2].startswith(said)


def test_what_an_earlier_search_has_set_gets_a_reason_of_this_one():
    text = CONFIG.replace("compile", f"{MARK}false -> true: +9 %\ncompile")
    made = reasons(ran(GIVEN, 10000), ran(BEST, 12000), text=text)
    assert [(choice.key, choice.value) for choice in made] == [
        (BATCH, 4),
        (COMPILE, True),
        ("train.grad_accum_steps", 2),
    ]
    kept = "true: set by an earlier search, kept by this one"
    assert made[1].reasons == (kept, *made[0].reasons[1:])


def test_accumulation_that_an_earlier_search_has_set_keeps_a_reason():
    text = CONFIG.replace("grad_accum_steps", f"{MARK}2 x 8 -> 4 x 4\ngrad_accum_steps")
    made = reasons(ran(GIVEN, 10000), ran(OTHER, 12000), text=text)
    kept = "4: set by an earlier search, kept by this one"
    assert made[-1] == ("train.grad_accum_steps", 4, (kept,))


def test_nothing_to_write():
    assert reasons(ran(GIVEN, 100)) == []
    assert reasons(ran(GIVEN, outcome="oom")) == []


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, (1, "2 x 1 -> 4 x 1 sequences per rank and step: as near as it gets; ")),
        (3, (2, "2 x 3 -> 4 x 2 sequences per rank and step: as near as it gets; ")),
        (8, (4, "2 x 8 -> 4 x 4 sequences per rank and step")),
    ],
)
def test_a_step_keeps_its_tokens(steps, expected):
    *_, last = reasons(ran(GIVEN, 100), ran(BEST, 150), steps=steps)
    assert last.key == "train.grad_accum_steps"
    assert last.value == expected[0]
    assert last.reasons[0].startswith(expected[1])


def test_accumulation_that_was_searched_is_not_worked_out():
    given = ran(GIVEN, 100).knobs
    one = ran(GIVEN, 100)._replace(knobs={**given, "train.grad_accum_steps": 4})
    two = ran(BEST, 150)._replace(
        knobs={**SPACE.values(BEST), "train.grad_accum_steps": 2}
    )
    assert [(c.key, c.value) for c in reasons(one, two)] == [
        (BATCH, 4),
        ("train.grad_accum_steps", 2),
    ]


def test_the_reasons_of_a_search_for_energy():
    def watts(point, speed, value):
        return ran(point, speed, more={"tokens_per_joule": value})

    plan, whole = plan_for_records(
        read_config("a.toml", CONFIG.format(steps=4).encode(), Target()),
        [watts(GIVEN, 100, 10.0), watts(BEST, 90, 12.0)],
        (),
    )
    tried = trials(*(("search", record) for record in whole))
    found = answer(plan.space, plan.given, tried, 60.0, "tokens-per-joule")
    first = choices(plan, found, "a-1")[0]
    gain = "+20.0 % tokens per joule (+16.8 to +23.3)"
    assert first.reasons[:3] == (
        f"2 -> 4: {gain}, 10.0 tokens/J -> 12.0 tokens/J",
        "unsure: not both measured again",
        "beside that -10.0 % tokens/s (-12.4 to -7.5), 100 tokens/s -> 90 tokens/s",
    )


def test_a_given_setting_that_nearly_fills_the_gpu_is_a_reason():
    full = ran(GIVEN, 100, more={"alloc_retries": 3})
    made = reasons(full, ran((0, 1, 1, 1), 90))
    said = "the config as it was leaves too little memory: 3 allocator retries"
    assert said in made[0].reasons
