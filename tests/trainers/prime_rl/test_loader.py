"""What prime-rl's config classes make of a file."""

import tomllib

from fp8tune.trainers.faults import dotted
from fp8tune.trainers.recognise import recognise
from tests.each import each

RL = '[trainer]\n[orchestrator]\n[model]\nname = "Qwen/Qwen3-8B"\n'


def faults(loaded):
    return [(fault.kind, dotted(fault.path)) for fault in loaded.faults]


@each(
    ("text", "key", "value"),
    [
        ('max_steps = "1_0.0"', "max_steps", 10),
        ('clean = "oN"', "clean", True),
        ("clean = 0", "clean", False),
        ('[optim]\nlr = " 1e-5 "', "optim.lr", 1e-5),
        ("[model]\nac = {}", "model.ac.mode", "full"),
        ("", "model.ac_offloading", True),
        (
            "[model]\nfull_offload = true\noptim_cpu_offload = false",
            "model.full_offload.numa_bind",
            True,
        ),
        ("[model]\nfull_offload = false", "model.full_offload", None),
    ],
)
def test_values_are_converted_as_pydantic_does(load, text, key, value):
    loaded = load(text)
    assert faults(loaded) == []
    assert (loaded.values[key], type(loaded.values[key])) == (value, type(value))


@each(
    ("text", "found"),
    [
        ("max_steps = 1.5", [("wrong-type", "max_steps")]),
        ("max_steps = true", [("boolean-for-number", "max_steps")]),
        ("output_dir = 1", [("wrong-type", "output_dir")]),
        ('[model]\nattn = "sdpa"', [("value-not-allowed", "model.attn")]),
        ("[model]\nfp8 = true", [("unknown-key", "model.fp8")]),
        (
            '[model.quantization]\ntype = "fp8"\nenable_a2a = true',
            [("unknown-key", "model.quantization.enable_a2a")],
        ),
        (
            '[model.lora]\ntarget_modules = "q"',
            [("wrong-type", "model.lora.target_modules")],
        ),
        (
            '[scheduler]\ntype = "cosine"\n',
            [("refused-settings", "scheduler.type")],
        ),
        # values are checked together only where each is right
        (
            "[data]\nbatch_size = 0\nmicro_batch_size = 2",
            [("value-out-of-range", "data.batch_size")],
        ),
        ("[inference.vllm]\nmax_num_seqs = 1", [("refused-settings", "inference")]),
    ],
)
def test_what_is_refused_or_misread(load, text, found):
    assert faults(load(text)) == found


@each(
    ("text", "found"),
    [
        (f"max_steps = 5\n{RL}", []),
        (
            f"seq_len = 512\n{RL}[trainer.model]\nseq_len = 256",
            [("refused-settings", "trainer.model.seq_len")],
        ),
        (f"{RL}[trainer.ckpt]", [("refused-settings", "trainer.ckpt")]),
        (f"{RL}[ckpt]", []),
        ("[trainer]", [("missing-key", "orchestrator")]),
    ],
)
def test_shared_tables_of_rl_files(load, text, found):
    assert faults(load(text, "rl")) == found


def test_a_shared_value_is_the_trainers(load):
    loaded = load(f"seq_len = 512\n{RL}", "rl")
    assert loaded.values["trainer.model.seq_len"] == 512
    assert loaded.values["trainer.model.name"] == "Qwen/Qwen3-8B"
    assert "trainer.model.seq_len" not in loaded.written


@each(
    ("text", "kind"),
    [
        ('[model]\nname = "x"\n[data]\nbatch_size = 8\n', "sft"),
        ("[model]\n[trainer]\n[orchestrator]\nbatch_size = 8\n", "rl"),
        ('[model]\nname = "x"\n[data.fake]\nbatch_size = 2\n', "rl_trainer"),
        ("[vllm]\n[server]\nport = 1\n", ""),
        ("batch_size = 8\ngroup_size = 8\n[model]\nname = 'x'\n[train]\n", ""),
    ],
)
def test_files_of_each_command_are_told_apart(text, kind):
    wanted = f"prime_rl==0.8.1.dev67.{kind}" if kind else ""
    assert recognise(tomllib.loads(text)).trainer == wanted


@each(
    ("text", "kind", "becomes"),
    [
        ("[model]\nfp8 = true", "sft", {"type": "fp8"}),
        ("[trainer.model]\nfp8 = true\n[orchestrator]", "rl", {"type": "fp8"}),
        ("[model]\nfp8 = false", "sft", None),
        ('[model]\nfp8 = true\nquantization = { type = "mxfp8" }', "sft", None),
        ("[model]\nfp8 = true\n[trainer]\n[orchestrator]", "rl", None),
    ],
)
def test_the_old_switch_of_fp8_has_one_meaning(load, text, kind, becomes):
    fault = next(f for f in load(text, kind).faults if f.kind == "unknown-key")
    assert fault.facts.get("becomes") == becomes


@each(
    ("text", "kind", "hint"),
    [
        ("[wandb]", "sft", "did you mean `monitors.wandb`?"),
        (f"{RL}[orchestrator.prime_monitor]", "rl", "does not"),
        ("[bench]", "rl_trainer", "does not"),
    ],
)
def test_keys_of_an_earlier_release_are_named(load, text, kind, hint):
    fault = next(f for f in load(text, kind).faults if f.kind == "unknown-key")
    said = "release 0.8.0 has this key, prime-rl 0.8.1.dev67 does not"
    assert fault.facts["hint"].startswith(said)
    assert fault.facts["hint"].endswith(hint)
