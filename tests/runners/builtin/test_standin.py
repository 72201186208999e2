"""One GPU standing for many, or for a larger one."""

import itertools
import sys

import pytest
import torch
from torch.distributed.tensor import DTensor

from fp8tune.runners.builtin.convert import build
from fp8tune.runners.builtin.data import batches
from fp8tune.runners.builtin.experts import Router
from fp8tune.runners.builtin.runner import WORKER, Builtin, Setup
from fp8tune.runners.builtin.standin import (
    communication_ends_ms,
    communication_ms,
    depths,
    extrapolated,
    for_all_ranks,
)
from fp8tune.runners.builtin.step import Training, cross_entropy
from fp8tune.runners.driver import Driver
from fp8tune.runners.gpu import Gpu
from fp8tune.runners.sampling import Sampling
from fp8tune.runners.watch import Guard
from fp8tune.trials.record import Record
from fp8tune.trials.runner import TrialLimits
from tests.runners import faulty_worker
from tests.runners.builtin.small import MOE, SMALL, config
from tests.sample import LLAMA_8B

LARGE = f"""\
{LLAMA_8B}[train]
batch_size = 2
seq_len = 4096
grad_accum_steps = 4
mixed_precision = "fp8"
"""


def runner(text=SMALL, ranks=1, gpu="", worker=WORKER, **setup):
    given = Setup("cpu", dp_shard=ranks, sampling=Sampling(2, 3, 1), **setup)
    return Builtin(config(text, ranks, gpu), given, worker)


@pytest.fixture
def no_group():
    yield
    torch.distributed.destroy_process_group()


@pytest.fixture(params=["", MOE, "tie_embeddings = true\n"])
def made(request, precision, no_group):
    """A rank of four."""
    text = SMALL.replace("[model]\n", f"[model]\n{request.param}")
    return runner(text.replace("fp8", precision), 4).spec({})


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
def test_a_rank_is_built_without_the_whole(made, precision):
    model, counts = build(made)
    training = Training(model, made, batches(made))
    losses = [training.step().loss for _ in range(2)]
    weights = {name: w.to_local() for name, w in model.named_parameters()}
    whole, _ = build(made._replace(dp_shard=1))
    assert (
        counts["parameters"]
        == sum(w.numel() for w in whole.parameters())
        - (made.tied_embeddings and precision == "fp8") * 128 * 64
    )
    for name, weight in whole.named_parameters():
        share = weights[name]
        assert share.numel() * 4 == weight.numel()
        spread = (float(w.detach().float().std()) for w in (share, weight))
        assert next(spread) == pytest.approx(next(spread), rel=0.3, abs=2e-3)
    assert all(4 < loss < 6 for loss in losses)  # ln 128 = 4.85


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
def test_ranks_that_do_not_exist_hold_what_this_one_holds(made):
    """Gradients are those of a whole model whose weights repeat this rank's share."""
    batch = next(batches(made))
    whole, _ = build(made._replace(dp_shard=1))
    model, _ = build(made)
    shares = {name: w.to_local() for name, w in model.named_parameters()}
    with torch.no_grad():
        for name, weight in whole.named_parameters():
            weight.copy_(shares[name].repeat(4, *[1] * (weight.dim() - 1)))
    for one, other in zip(whole.modules(), model.modules(), strict=True):
        if isinstance(one, Router):
            one.signs = other.signs
    losses = [cross_entropy(m(batch[0]), batch[1], made) for m in (whole, model)]
    assert losses[0] == losses[1]
    for loss in losses:
        loss.backward()
    gradients = {name: w.grad for name, w in whole.named_parameters()}
    for name, weight in model.named_parameters():
        share = weight.grad.to_local()
        assert torch.equal(share, gradients[name][: len(share)])


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
def test_no_weights_stay_gathered_after_the_forward_pass(made):
    """The trainer reshards blocks and root alike (parallel.py, apply_fsdp2)."""
    model, _ = build(made)
    model(next(batches(made))[0])
    whole = [n for n, w in model.named_parameters() if not isinstance(w, DTensor)]
    assert whole == []


@pytest.mark.parametrize(
    ("layers", "period", "pairs"),
    [
        (32, 1, [(8, 16), (4, 8), (2, 4), (1, 2)]),
        (30, 1, [(7, 15), (3, 7), (1, 3)]),
        (24, 2, [(6, 12), (2, 6)]),
        (24, 4, [(4, 12)]),
        (3, 1, []),
        (1, 1, []),
    ],
)
def test_depths(layers, period, pairs):
    assert depths(layers, period) == pairs
    for low, high in pairs:
        assert (low % period, high % period) == (0, 0)
        assert 0 < low < high < layers


def measured_at(depths, peaks):
    """Two shallow trials of these peaks [GiB], with 1 GiB more reserved."""
    speeds = ((4000.0, (100.0, 102.0, 98.0)), (2500.0, (160.0, 164.0, 156.0)))
    return [
        (depth, Record({}, "ok", *speed, peak, peak + 1, 5.0))
        for depth, speed, peak in zip(depths, speeds, peaks, strict=True)
    ]


def test_time_is_a_line_over_depth():
    job = runner(LARGE, 8).job({})
    found = extrapolated(measured_at((8, 16), (10.0, 16.0)), 32, job)
    assert found.step_ms == (280.0,)
    assert found.tokens_per_second == pytest.approx(2500.0 * 160 / 280)
    assert found.cost_s == 10.0
    assert found.extrapolated.startswith("from 8 and 16 of 32 blocks")
    assert 0 < found.extrapolation_error < 0.1


@pytest.mark.parametrize("ac", ["full", "none"])
def test_memory_follows_the_closed_form_where_its_peak_moves(ac):
    """With full AC from the loss to the last block, else it stays at the loss."""
    values = {"grad_accum": 1, "ac": ac, "init_bytes": 0}
    job = runner(LARGE).job({}).with_values(values)
    closed = {n: job.with_values({"layers": n})["memory.peak_gib"] for n in (8, 16, 32)}
    low, high, whole = (1 + 1.03 * closed[n] for n in (8, 16, 32))
    line = high + 2 * (high - low)
    found = extrapolated(measured_at((8, 16), (low, high)), 32, job)
    assert line == pytest.approx(whole * (0.965 if ac == "full" else 1), rel=1e-3)
    assert found.peak_gib == pytest.approx(whole)
    assert found.reserved_gib == pytest.approx(whole + 1)


def test_memory_is_a_line_where_no_closed_form_covers_the_job():
    job = runner(LARGE).job({}).with_values({"vlm": True})
    found = extrapolated(measured_at((8, 16), (10.0, 16.0)), 32, job)
    assert (found.peak_gib, found.reserved_gib) == (28.0, 29.0)


def test_all_ranks_with_their_collectives():
    job = runner(LARGE, 16, "h100-sxm").job({})
    added = communication_ms(job)
    one = Record({}, "ok", 1000.0, (200.0,))
    many = for_all_ranks(one, job, 16)
    assert added > 0
    assert many.tokens_per_second == pytest.approx(16000 * 200 / (200 + added))
    assert f"plus {added:.1f} ms" in many.extrapolated
    assert many.communication_ms == added
    ends = communication_ends_ms(job)
    assert many.communication_ends_ms == tuple(ends)
    off = max(abs((200 + added) / (200 + end) - 1) for end in ends)
    wrong = min(off, job["speed.tokens_error"])
    assert many.extrapolation_error == pytest.approx(wrong)
    in_part = one._replace(extrapolated="a", extrapolation_error=0.03)
    error = for_all_ranks(in_part, job, 16).extrapolation_error
    assert error == pytest.approx((wrong**2 + 0.03**2) ** 0.5)


@pytest.mark.parametrize("gpu", ["h100-sxm", "h200", ""])
def test_all_settings_of_a_search_have_communication_or_none(gpu):
    """At the same speed of a rank none may look faster for lack of it."""
    made = runner(LARGE, 16, gpu)
    for batch, ac in itertools.product((1, 2, 8), ("none", "selective", "full")):
        eager, *others = (
            communication_ms(
                made.job(
                    {
                        "train.batch_size": batch,
                        "train.activation_checkpointing": ac,
                        "train.compile_model": compiled,
                        "train.mixed_precision": precision,
                    }
                )
            )
            for precision, compiled in (
                ("fp8", False),
                ("bf16", False),
                ("bf16", True),
                ("fp8", True),
            )
        )
        assert eager == others[0]
        assert {type(ms) for ms in (eager, *others)} == {float if gpu else type(None)}


@pytest.mark.parametrize(
    ("precision", "compiled"), [("bf16", True), ("fp8", True), ("fp8", False)]
)
def test_collectives_on_other_networks(precision, compiled):
    """Slower and faster than fitted, and without what FP8 saves of them."""
    knobs = {"train.mixed_precision": precision, "train.compile_model": compiled}
    job = runner(LARGE, 16, "h100-sxm").job(knobs)
    ends = communication_ends_ms(job)
    slow, fitted, fast = (ends[i : i + 2] for i in (0, 2, 4))
    assert fitted[0] == pytest.approx(communication_ms(job))
    for place, _ in enumerate(fitted):
        assert slow[place] > fitted[place] > fast[place] > 0
    saves = precision == "fp8" and compiled
    assert all((with_fp8 < without) == saves for with_fp8, without in (slow, fitted))


def test_no_bandwidth_is_known():
    many = for_all_ranks(
        Record({}, "ok", 1000.0, (200.0,)), runner(LARGE, 16).job({}), 16
    )
    assert many.tokens_per_second == 16000.0
    assert "without communication" in many.extrapolated
    assert many.extrapolation_error is None


def test_what_failed_or_runs_alone_stays_as_it_is():
    failed, alone = Record({}, "oom"), Record({}, "ok", 1000.0, (200.0,))
    assert for_all_ranks(failed, runner(LARGE, 16, "h100-sxm").job({}), 16) is failed
    assert for_all_ranks(alone, runner().job({}), 1) is alone


def test_a_trial_of_one_rank_of_four(in_this_process):
    found = runner(ranks=4).run({}, TrialLimits(300))
    assert found.outcome == "ok", found.message
    assert found.extrapolated.startswith("rank 0 of 4, without communication")
    rows = 2 * 32 * 2 * 4  # sequences x tokens x accumulated x ranks
    assert found.tokens_per_second == pytest.approx(
        rows / sorted(found.step_ms)[len(found.step_ms) // 2] * 1e3, rel=0.5
    )


@pytest.mark.parametrize(
    ("layers", "here", "larger", "trials"),
    [
        (8, 1e-3, 1000.0, 2),
        (8, 100.0, 1000.0, 1),
        (8, 0.0, 1000.0, 1),  # the driver does not tell
        (2, 1e-3, 1000.0, 1),  # nothing shallower to extrapolate from
        (8, 1e-3, 0.0, 1),
    ],
)
def test_a_whole_model_that_cannot_fit_is_not_tried(layers, here, larger, trials):
    worker = (sys.executable, faulty_worker.__file__, "has_ten_gib")
    text = SMALL.replace("n_layers = 2", f"n_layers = {layers}")
    made = runner(text, worker=worker, larger_gib=larger)
    made.guard = Guard(Driver(Gpu("small", memory_gib=here)), wait=0.0)
    begun = []
    made.hear = lambda line: begun.append(line.get("stage"))
    found = made.run({}, TrialLimits(100))
    assert (found.outcome, begun.count("build")) == ("ok", trials), found.message
    assert bool(found.extrapolated) == (trials == 2)


def test_a_model_that_does_not_fit_is_measured_in_part(in_this_process):
    text = SMALL.replace("n_layers = 2", "n_layers = 8")
    made = runner(text, larger_gib=1000.0)
    spec = made.spec({})
    found = made._in_part({}, spec, Record({}, "oom", cost_s=1.0), made.now() + 300)
    assert found.outcome == "ok", found.message
    assert found.extrapolated.startswith("from 2 and 4 of 8 blocks")
    assert found.float8_linears == 4 * 7 + 1
    assert found.cost_s > 1.0
    none = runner(text, larger_gib=0.001)
    small = none._in_part({}, spec, Record({}, "oom"), none.now() + 300)
    assert small.outcome == "oom"


@pytest.mark.parametrize(
    ("batch", "larger", "outcome", "peak", "part"),
    [
        (1, 24.0, "ok", 8.0, False),
        (3, 24.5, "ok", 24.0, True),
        (3, 23.0, "oom", 24.0, True),
        (4, 90.0, "ok", 32.0, True),
    ],
)
def test_memory_is_that_of_the_larger_gpu(batch, larger, outcome, peak, part):
    """Whether a setting fits the GPU here or not: the search compares them all."""
    worker = (sys.executable, faulty_worker.__file__, "has_ten_gib")
    text = SMALL.replace("n_layers = 2", "n_layers = 8")
    made = runner(text, worker=worker, larger_gib=larger)
    found = made.run({"train.batch_size": batch}, TrialLimits(100))
    assert (found.outcome, found.peak_gib) == (outcome, peak), found.message
    assert found.capacity_gib == larger
    assert bool(found.extrapolated) == part
    here = runner(text, worker=worker).run({"train.batch_size": 1}, TrialLimits(100))
    assert here.capacity_gib == 10
