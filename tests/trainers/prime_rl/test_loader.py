"""What prime-rl's config classes make of a file."""

import tomllib

from fp8tune.trainers.faults import dotted
from fp8tune.trainers.recognise import recognise
from fp8tune.trainers.trainer import trainer
from tests.each import each

RL = '[trainer]\n[orchestrator]\n[model]\nname = "Qwen/Qwen3-8B"\n'


def faults(loaded):
    return [(fault.kind, dotted(fault.path)) for fault in loaded.faults]


@each(
    ("text", "key", "value"),
    [
        ('max_steps = "1_0.0"', "max_steps", 10),
        ("max_steps = 10.0", "max_steps", 10),
        ('clean = "oN"', "clean", True),
        ("clean = 0", "clean", False),
        ('[optim]\nlr = " 1e-5 "', "optim.lr", 1e-5),
        ('[model]\nep = "8"', "model.ep", 8),
        ('[model]\nep = "auto"', "model.ep", "auto"),
        ('[model]\nac = "None"', "model.ac", None),
        ("[model]\nac = {}", "model.ac.mode", "full"),
        ("", "model.ac_offloading", True),
        (
            "[model]\nfull_offload = true\noptim_cpu_offload = false",
            "model.full_offload.numa_bind",
            True,
        ),
        ("[model]\nfull_offload = false", "model.full_offload", None),
        ("[optim]\nlr = 1", "optim.type", "adamw"),
        ('[optim]\ntype = "muon"', "optim.mu", 0.95),
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
        ('max_steps = "ten"', [("value-not-convertible", "max_steps")]),
        ("max_steps = true", [("boolean-for-number", "max_steps")]),
        ('clean = " true"', [("value-not-convertible", "clean")]),
        ("output_dir = 1", [("wrong-type", "output_dir")]),
        ('model = "x"', [("section-not-a-table", "model")]),
        ('[model]\nattn = "sdpa"', [("value-not-allowed", "model.attn")]),
        ("[model]\nfp8 = true", [("unknown-key", "model.fp8")]),
        ("[model.quantization]", [("missing-kind", "model.quantization")]),
        (
            '[model.quantization]\ntype = "fp8"\nenable_a2a = true',
            [("unknown-key", "model.quantization.enable_a2a")],
        ),
        ("[optim]\nlr = -1", [("value-out-of-range", "optim.lr")]),
        ("[optim]\nlr = nan", [("value-out-of-range", "optim.lr")]),
        (
            '[model.lora]\ntarget_modules = "q"',
            [("wrong-type", "model.lora.target_modules")],
        ),
        ("[log]\nranks_filter = [0, 0.5]", [("wrong-type", "log.ranks_filter[1]")]),
        ('[val.data]\ntype = "fake"', [("value-not-allowed", "val.data.type")]),
        ("[val]", [("missing-key", "val")]),
        (
            '[scheduler]\ntype = "cosine"\n',
            [("refused-settings", "scheduler.type")],
        ),
        (
            "[data]\nbatch_size = 3\nmicro_batch_size = 2",
            [("refused-settings", "data.micro_batch_size")],
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
        (RL, []),
        (f"max_steps = 5\n{RL}", []),
        (f'max_steps = "x"\n{RL}', [("value-not-convertible", "max_steps")]),
        (
            f"seq_len = 512\n{RL}[trainer.model]\nseq_len = 256",
            [("refused-settings", "trainer.model.seq_len")],
        ),
        (f"{RL}[trainer.ckpt]", [("refused-settings", "trainer.ckpt")]),
        (f"{RL}[ckpt]", []),
        (f"{RL}[ckpt]\nkeep_last = 0", [("value-out-of-range", "ckpt.keep_last")]),
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


@each("kind", ["rl", "rl_trainer", "sft"])
def test_defaults_are_accepted(kind):
    known = trainer(f"prime_rl==0.8.1.dev67.{kind}")
    text = RL if kind == "rl" else ""
    assert known.load(tomllib.loads(text)).faults == []


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
    ("keys", "hint"),
    [
        ("fp8 = true", "since July 2026 it is written `quantization = { type = "),
        ("fp8 = false", "remove it: since July 2026 `quantization` replaces it"),
        (
            'fp8 = true\nquantization = { type = "fp8" }',
            "remove it: since July 2026 `quantization` replaces it",
        ),
    ],
)
def test_the_old_switch_of_fp8_has_a_hint(load, keys, hint):
    (fault,) = load(f"[model]\n{keys}").faults
    assert fault.facts["hint"].startswith(hint)


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


def test_a_key_of_no_release_has_no_such_hint(load):
    assert [fault.facts["hint"] for fault in load("[wandbb]").faults] == [""]
