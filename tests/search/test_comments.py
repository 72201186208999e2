"""Why values were chosen, and what follows them."""

import pytest

from fp8tune.job import Target
from fp8tune.search.answer.decide import decide
from fp8tune.search.history import History
from fp8tune.search.plan import config_to_search
from fp8tune.search.recorded import plan_for_records
from fp8tune.search.write.comments import choices, summary
from fp8tune.search.write.writeback import Choice
from fp8tune.trials.record import from_data
from tests.search.replayed import BEST_BF16
from tests.search.tries import (
    AC,
    BATCH,
    BEST,
    GIVEN,
    SPACE,
    confirmed,
    ran,
    trials,
)
from tests.search.tries import CONFIG as TRAIN

STEPS = "train.grad_accum_steps"
CONFIG = TRAIN.replace("= 8\n", "= {steps}\n")


def answer(config, records, allow=(), repeats=2):
    """The plan, and the answer to records that were all run, and confirmed."""
    plan, whole = plan_for_records(config, records, allow)
    tried = trials(
        *(("search", record) for record in whole), *confirmed(*whole * repeats)
    )
    return plan, decide(History(plan.space, plan.baseline, tried), 60.0)


def search(*records, steps=4, gpus=0, repeats=2):
    """The same of CONFIG."""
    data = CONFIG.format(steps=steps).encode()
    config = config_to_search("a.toml", data, Target("", gpus))
    return answer(config, records, repeats=repeats)


def measured(speed, **knobs):
    """A record of values by their keys."""
    data = {"knobs": knobs, "outcome": "ok", "tokens_per_second": speed}
    return from_data(data)


VERSIONS = {"torchao": "0.18.0", "driver": "", "allocator": "default"}
MORE = {"capacity_gib": 139.8, "environment": "H200, torch 2.13", "versions": VERSIONS}
FAST = (2, 0, 1, 1)


def test_the_whole_reason():
    best = ran(FAST, 15000, peak_gib=80.7, more=MORE)
    records = (ran(GIVEN, 10000), ran(BEST, 12000), best)
    plan, found = search(*records, gpus=16)
    slower = "20.0 % slower (-20.3 to -19.7 %)"
    assert choices(plan, found) == [
        Choice(BATCH, 4, "2 -> 4: one of 2 changes measured together"),
        Choice(AC, "none", f"full -> none: with full it is {slower}"),
        Choice(STEPS, 2, "2 x 4 -> 4 x 2 sequences per rank and step"),
    ]
    assert summary(plan, found, "study a-1", ["diff a.toml b.toml"]) == [
        "faster: +50.0 % tokens/s (+49.4 to +50.6), 10,000 -> 15,000, 2 pairs of runs",
        "next: diff a.toml b.toml",
        "peak memory 80.7 of 139.8 GiB; runner-up: the chosen setting with "
        f"activation_checkpointing = full: {slower}",
        "H200, torch 2.13, torchao 0.18.0",
        "from trials 5 and 8 of study a-1, for 16 GPUs",
    ]


MEGATRON = """\
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\
    --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 \\
    --micro-batch-size 1 --global-batch-size 128 --bf16 --fp8-format hybrid \\
    --recompute-granularity selective --lr 3e-4 --train-iters 5000
"""


MEGATRON_CONFIG = config_to_search("a.sh", MEGATRON.encode(), Target("", 8))


def test_each_key_of_a_knob_says_its_own_values():
    own = {"micro_batch_size": 1, "ac": "selective", "precision": "fp8"}
    records = measured(10.0, **own), measured(12.0, **own | {"ac": "full"})
    gain = "+20.0 % tokens/s"
    assert choices(*answer(MEGATRON_CONFIG, records)) == [
        Choice("recompute_granularity", "full", f"selective -> full: {gain}"),
        Choice("recompute_method", "uniform", f"not set -> uniform: {gain}"),
        Choice("recompute_num_layers", 1, f"not set -> 1: {gain}"),
    ]


def test_a_recipe_whose_losses_were_not_compared_says_so():
    records = [
        measured(speed, micro_batch_size=1, te_recipe=recipe)
        for recipe, speed in (("delayed", 10.0), ("current", 12.0))
    ]
    plan, found = answer(MEGATRON_CONFIG, records, ("fp8",))
    assert summary(plan, found, "study a-1", ())[0] == (
        "inconclusive (2 pairs of runs): 10 -> 12 tokens/s; the losses of te_recipe = "
        "current were not compared with bf16's"
    )


def test_one_pair_of_runs_is_inconclusive_and_shows_no_interval():
    plan, found = search(ran(GIVEN, 10000), ran(BEST, 12000), repeats=0)
    assert summary(plan, found, "study a-1", ())[0] == (
        "inconclusive (no pair of runs): 10,000 -> 12,000 tokens/s; "
        "a verdict takes 2 pairs of neighbouring confirmation runs; a larger --budget "
        "should settle it"
    )
    (batch, _) = choices(plan, found)
    assert batch.reason == "2 -> 4: +20.0 % tokens/s (inconclusive)"


def test_fp8_that_does_not_pay_is_said():
    """Of FP8 that does, and of a rehearsal, which tells neither, see tests/golden."""
    plan, found = search(ran(GIVEN, 100), ran(BEST, 120), ran(BEST_BF16, 150))
    said = "FP8 does not pay: -20.0 % tokens/s (-20.3 to -19.7), bf16 reaches 150"
    assert said in summary(plan, found, "study a-1", ())


def test_fewer_ranks_accumulate_more_as_they_did_in_trials():
    data = CONFIG.format(steps=4).replace('"fp8"', '"bf16"').encode()
    config = config_to_search("a.toml", data, Target("", 8))
    records = [
        measured(speed, **{BATCH: 2, "distributed.tp": degree})
        for degree, speed in ((1, 10.0), (2, 12.0))
    ]
    assert choices(*answer(config, records, ("tp",))) == [
        Choice("distributed.tp", 2, "1 -> 2: +20.0 % tokens/s"),
        Choice(STEPS, 8, "2 x 4 -> 2 x 8 sequences per rank and step"),
    ]


def test_nothing_to_write():
    assert choices(*search(ran(GIVEN, 100))) == []
    assert choices(*search(ran(GIVEN, outcome="oom"))) == []


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, (1, "2 x 1 -> 4 x 1 sequences per rank and step: as near as it gets; ")),
        (3, (2, "2 x 3 -> 4 x 2 sequences per rank and step: as near as it gets; ")),
        (8, (4, "2 x 8 -> 4 x 4 sequences per rank and step")),
    ],
)
def test_a_step_keeps_its_tokens(steps, expected):
    *_, last = choices(*search(ran(GIVEN, 100), ran(BEST, 150), steps=steps))
    assert (last.key, last.value) == (STEPS, expected[0])
    assert last.reason.startswith(expected[1])


def test_accumulation_that_was_searched_is_not_worked_out():
    one = ran(GIVEN, 100)._replace(knobs={**SPACE.values(GIVEN), STEPS: 4})
    two = ran(BEST, 150)._replace(knobs={**SPACE.values(BEST), STEPS: 2})
    made = choices(*search(one, two))
    assert [(choice.key, choice.value) for choice in made] == [(BATCH, 4), (STEPS, 2)]


def test_a_baseline_that_nearly_fills_the_gpu_is_a_reason():
    full = ran(GIVEN, 100, more={"alloc_retries": 3})
    plan, found = search(full, ran((0, 1, 1, 1), 90))
    said = "your config leaves too little memory for a long run: 3 allocator retries"
    assert said in summary(plan, found, "study a-1", ())[1]
