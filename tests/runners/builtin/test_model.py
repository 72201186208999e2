"""The built-in trial's model, its conversion and its step, and what is not built."""

import math
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fp8tune.runners.builtin.convert import build, checkpoint, to_float8
from fp8tune.runners.builtin.data import batches
from fp8tune.runners.builtin.model import Decoder
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.builtin.spec import CannotBuild, from_job
from fp8tune.runners.builtin.step import Training, adamw, cross_entropy
from tests.runners.builtin.small import MOE, SMALL, config, runner, spec
from tests.support.live_bytes import LiveBytes


@pytest.mark.parametrize(
    "more",
    ["", "tie_embeddings = true\n", 'activation = "gelu"\n', "qk_norm = true\n", MOE],
)
def test_the_model_has_the_parameters_that_the_facts_count(more):
    text = SMALL.replace("[model]\n", f"[model]\n{more}")
    made = spec(text)
    counted = runner(text).job({})["params.decoder"]
    norms = 2 * made.layers * made.head_dim if made.qk_norm else 0
    weights = sum(w.numel() for w in Decoder(made).parameters())
    assert weights == counted + norms


def test_the_norms_of_queries_and_keys_have_an_epsilon_of_their_own():
    text = SMALL.replace("[model]\n", "[model]\nqk_norm = true\nnorm_eps = 0.1\n")
    torch.manual_seed(0)
    attention = Decoder(spec(text)).layers[0].attention
    small = torch.full((1, 1, 1, attention.head_dim), 1e-2)
    for norm in (attention.q_norm, attention.k_norm):
        said = float(norm(small).detach().mean())
        assert said == pytest.approx(1e-2 / (1e-4 + 1e-5) ** 0.5)


@pytest.mark.parametrize("more", ["", MOE])
def test_positions_do_not_see_the_future(more):
    made = spec(SMALL.replace("[model]\n", f"[model]\n{more}"))
    torch.manual_seed(0)
    model = Decoder(made)
    tokens = torch.randint(0, 128, (1, 32))
    other = tokens.clone()
    other[0, -1] = (other[0, -1] + 1) % 128
    before, after = model(tokens), model(other)
    assert torch.allclose(before[:, :-1], after[:, :-1], atol=1e-5)
    assert not torch.allclose(before[:, -1], after[:, -1], atol=1e-5)


def test_every_linear_but_experts_and_routers_is_converted():
    made = spec(SMALL.replace("[model]\n", f"[model]\n{MOE}"))
    model = Decoder(made).to(torch.bfloat16)
    converted = to_float8(model, made)
    # attention of two blocks, the dense block's FFN, the head
    assert converted == 2 * 4 + 3 + 1


@pytest.mark.parametrize(
    ("mode", "wrapped"), [("none", 0), ("full", 2), ("selective", 2)]
)
def test_what_is_checkpointed(mode, wrapped):
    made = spec(activation_checkpointing=mode)
    assert checkpoint(Decoder(made), made) == wrapped


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.parametrize("mode", ["none", "full", "selective"])
def test_training_learns(precision, mode):
    made = spec(mixed_precision=precision, activation_checkpointing=mode)
    model, _ = build(made)
    training = Training(model, made, batches(made))
    losses = [training.step().loss for _ in range(25)]
    assert losses[0] == pytest.approx(math.log(128), abs=0.3)
    assert losses[-1] < losses[0] - 0.3


def test_checkpointing_changes_no_number():
    def losses(mode):
        made = spec(mixed_precision="bf16", activation_checkpointing=mode)
        training = Training(build(made)[0], made, batches(made))
        return [training.step().loss for _ in range(3)]

    assert losses("full") == losses("none") == losses("selective")


def test_a_rank_of_eight_holds_an_eighth():
    made = Builtin(config(ranks=8), Setup("cpu", dp_shard=8)).spec({})
    model, counts = build(made)
    local = sum(w.to_local().numel() for w in model.parameters())
    torch.distributed.destroy_process_group()
    assert local == counts["parameters"] / 8


def test_a_chunked_loss_is_the_same():
    made = spec()
    logits, labels = torch.randn(2, 32, 128), torch.randint(0, 128, (2, 32))
    chunked = made._replace(loss="chunked_cross_entropy", loss_chunk=7)
    whole, parts = (cross_entropy(logits, labels, one) for one in (made, chunked))
    assert torch.allclose(whole, parts)


@pytest.mark.parametrize("chunks", [1, 2, 8])
def test_a_chunked_loss_needs_what_the_trainers_needs(chunks):
    """4 - 1/chunks times the logits, as ``benchmarks/results/loss_bytes.md`` has it."""
    tokens, entries = 512, 1024
    made = spec()._replace(loss="chunked_cross_entropy", loss_chunk=tokens // chunks)
    head = torch.randn(entries, 8, dtype=torch.bfloat16, requires_grad=True)
    hidden = torch.randn(1, tokens, 8, dtype=torch.bfloat16)
    labels = torch.randint(0, entries, (1, tokens))
    with LiveBytes("loss") as live:
        logits = hidden @ head.t()
        cross_entropy(logits, labels, made).backward()
    needed = live.peaks["loss"] / logits.nbytes
    assert needed == pytest.approx(4.0 if chunks == 1 else 4 - 1 / chunks, abs=0.1)


def test_learning_rates_are_those_of_the_schedule():
    text = SMALL.replace("batch_size = 2", "max_steps = 8\nbatch_size = 2")
    rates = spec(text).learning_rates
    assert rates[:5] == pytest.approx([0, 0.00075, 0.0015, 0.00225, 0.003])
    assert rates[6] == pytest.approx(0.003 * 0.55)  # half of the cosine's four steps
    assert rates[7] == rates[-1] == pytest.approx(0.000695, rel=1e-3)


def test_accumulation_keeps_the_tokens_of_a_step():
    assert [
        (made.micro_batch, made.grad_accum)
        for made in (spec(batch_size=1), spec(batch_size=4))
    ] == [(1, 4), (4, 1)]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('[vision_encoder]\n[vlm]\narch = "mot"\n', "a VLM"),
        ("[distributed]\ntp = 2\n", "tensor parallelism of 2"),
        ("[distributed]\npp = 2\n", "pipeline parallelism of 2"),
        ('[optimizer]\nname = "muon"\n', "the optimizer muon"),
        ("[data]\npack_sequences = true\n", "packed sequences"),
    ],
)
def test_what_cannot_be_built(more, why):
    text = SMALL.replace("[optimizer]\nlr = 0.003\n", "") + more
    with pytest.raises(CannotBuild, match=why):
        from_job(runner(text).job({}), device="cpu")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('model_type = "mine"\n', "a model of type mine"),
        (f"{MOE}moe_packed_experts = true\n", "packed experts"),
        (f'{MOE}moe_router = "sigmoid_topk"\n', "the router sigmoid_topk"),
        (f"{MOE}moe_capacity_factor = 1.25\n", "a capacity of experts"),
        (f"{MOE}moe_gradient_scale = true\n", "gradients scaled per expert"),
        (f"{MOE}moe_router_z_loss_weight = 0.1\n", "a z-loss of the router"),
    ],
)
def test_a_model_that_is_another_is_refused(more, why):
    text = SMALL.replace("[model]\n", f"[model]\n{more}")
    with pytest.raises(CannotBuild, match=why):
        spec(text)


def test_a_dense_model_has_no_experts_to_refuse():
    assert spec(SMALL.replace("[model]\n", "[model]\nmoe_gradient_scale = true\n"))


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [
        ("math", "aten::_scaled_dot_product_attention_math"),
        ("auto", "aten::_scaled_dot_product_flash_attention_for_cpu"),
    ],
)
def test_attention_takes_the_kernel_of_the_config(backend, kernel):
    line = f'sdpa_backend = "{backend}"\n'
    made = spec(SMALL.replace("[model]\n", f"[model]\n{line}"))
    model = Decoder(made).to(torch.bfloat16)
    with torch.profiler.profile(acc_events=True) as seen:
        model(torch.zeros(1, 32, dtype=torch.long))
    attention = [e.key for e in seen.key_averages() if "dot_product" in e.key]
    assert kernel in attention


@pytest.mark.parametrize("fused", [True, False])
def test_the_optimizer_is_fused_as_the_config_says(fused):
    made = spec(SMALL.replace("lr = 0", f"fused = {str(fused).lower()}\nlr = 0"))
    on_gpu = adamw(Decoder(made), made._replace(device="cuda"))
    assert on_gpu.defaults["fused"] is fused
    assert adamw(Decoder(made), made).defaults["fused"] is False


SEEN = {
    "aten._local_scalar_dense": "read",
    "aten._log_softmax": "loss",
    "aten._log_softmax_backward_data": "backward",
    "aten.lerp_": "optimizer",
}


class Order(TorchDispatchMode):
    """When a number is read from the device, among a step's parts."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        part = SEEN.get(str(func.overloadpacket))
        if part and (part == "read" or self.seen[-1:] != [part]):
            self.seen.append(part)
        return func(*args, **(kwargs or {}))


WAITS = ["read", "loss", "backward", "read"]


@pytest.mark.parametrize(
    ("loss", "chunk", "micro_batch"),
    [
        ("cross_entropy", 4096, WAITS),
        ("chunked_cross_entropy", 7, WAITS),
        ("chunked_cross_entropy", 4096, WAITS[1:]),
    ],
)
def test_the_host_waits_where_the_trainers_does(loss, chunk, micro_batch):
    """As the trainer's own loss and clip_grad_norm_ are seen by the same mode."""
    made = spec(mixed_precision="bf16", activation_checkpointing="none")
    made = made._replace(loss=loss, loss_chunk=chunk)
    training = Training(build(made)[0], made, batches(made))
    training.step()
    with Order() as order:
        training.step()
    assert made.grad_accum == 2
    before = order.seen[: order.seen.index("optimizer") + 1]
    assert before == [*micro_batch, *micro_batch, "read", "optimizer"]


def test_the_loss_of_labels_that_do_not_count_is_zero():
    """As the trainer's, which would else be not a number."""
    logits, labels = torch.randn(1, 8, 16), torch.full((1, 8), -100)
    for loss, chunk in (("cross_entropy", 4), ("chunked_cross_entropy", 4)):
        made = spec()._replace(loss=loss, loss_chunk=chunk)
        assert cross_entropy(logits, labels, made) == 0


def test_logits_stay_until_the_next_ones_as_in_the_trainer():
    made = spec(mixed_precision="bf16", activation_checkpointing="none")
    model, _ = build(made)
    seen, stay = [], []

    def look(*_):
        stay.extend(one() is not None for one in seen[-1:])

    model.register_forward_pre_hook(look)
    model.register_forward_hook(lambda *called: seen.append(weakref.ref(called[-1])))
    model.embedding.weight.register_hook(look)  # at the end of the backward pass
    training = Training(model, made, batches(made))
    training.step()
    training.step()
    assert stay == [True] * 7  # two micro-batches a step, the first forward sees none
    assert [one() is not None for one in seen] == [False, False, False, True]
