"""Pages as people read them."""

import pytest

from fp8tune.lint.explain import ListPage, explain
from fp8tune.lint.explain.derivation import Node
from fp8tune.lint.explain.rule import FixText
from fp8tune.lint.explain.text import WIDTH, prose, text, tree
from tests.each import each

RULE = """\
tp-does-not-divide-kv-heads (FP8128)
Key/value heads that tensor parallelism cannot share out

rejected: the trainer refuses the config at start
error, confidence certain, since 0.1.0; checks KempnerForge configs

Fires when
  tp > 1 and kv_heads % tp != 0

Why
  Tensor parallelism gives each rank whole key/value heads; with GQA there are
  few.

Fires on
  [model]
  n_heads = 32
  n_kv_heads = 4
  [distributed]
  tp = 8

  error: `distributed.tp = 8` does not divide `model.n_kv_heads = 4`
  help: set `distributed.tp` to a divisor of 4, or repeat the heads
"""

FIRES = """\
In a.toml: fires
  line 3: `model.dim = 2050` is not a multiple of 16, which every FP8 GEMM needs
  of K and N
  true    precision == "fp8"
  true    hidden_size % 16 != 0
    precision = "fp8"  (train.mixed_precision, line 8)
    hidden_size = 2050  (model.dim, line 3)

"""

UNKNOWN = """\
In a.toml: not judged
  true    precision == "fp8"
  unknown not gpu.fp8_matmul
    precision = "fp8"  (train.mixed_precision, line 8)
    gpu.fp8_matmul = unknown  (needs gpu)
      gpu = unknown  (say --gpu h100, or `# fp8tune: gpu=h100` above the first
          table)
  `fp8tune explain NAME a.toml` follows each value further.

"""

FACT = """\
step.sequences
Sequences of one optimizer step, the global batch.

Formula
  micro_batch * grad_accum * step.ranks

Reads
  micro_batch, grad_accum, step.ranks

"""

DERIVED = """\
In this config
  step.sequences = 32
    = 4 * 1 * 8
    micro_batch = 4 sequences  (train.batch_size, line 7)
"""

KEY = """\
train.batch_size (KempnerForge)
Micro-batch per data-parallel rank [sequences].

In this config
  train.batch_size = 4 sequences  (line 7)

type     whole number [sequences]
default  8
takes    above 0

In rules
  micro_batch: sequences per data-parallel rank and forward pass

Other trainers call it
  micro_batch_size, local_batch_size, per_device_train_batch_size

"""


def test_a_rule_starts_with_what_it_finds():
    shown = text(explain("FP8128"))
    head, rest = shown[: len(RULE)], shown[len(RULE) :]
    assert head.split("\n")[:16] == RULE.split("\n")[:16]
    assert "\nEvidence\n  https://" in rest


@pytest.mark.parametrize(
    ("name", "part"),
    [("fp8-hidden-size-not-16", FIRES), ("gpu-without-fp8", UNKNOWN)],
)
def test_a_rule_with_a_config(config, name, part):
    assert part in text(explain(name, config()))


def test_a_fact():
    assert text(explain("step.sequences")).startswith(FACT)


def test_a_fact_with_a_config(config):
    assert DERIVED in text(explain("step.sequences", config()))


def test_a_key_with_a_config(config):
    assert text(explain("train.batch_size", config())).startswith(KEY)


FIXES = """
Fix, as for the example
  compile the model (fp8tune lint --unsafe-fixes)
    the first step takes longer
  compile it (fp8tune lint --fix)

How to show it
  expect: slower
  config:
    [train]
    seq_len = 16
  runs: 2

Evidence
"""


def test_fixes_and_experiments():
    fix = FixText("unsafe", "compile the model", "the first step takes longer")
    experiment = {"expect": "slower", "config": "[train]\nseq_len = 16\n", "runs": 2}
    page = explain("fp8-without-compile")._replace(
        fixes=[fix, FixText("safe", "compile it", "")], experiments=[experiment]
    )
    assert FIXES in text(page)


def test_the_fix_of_a_finding_in_a_config(config):
    read = config('[train]\nmixed_precision = "fp8"\ncompile_model = false\n')
    page = explain("fp8-without-compile", read)
    fix = FixText("unsafe", "set it", "minutes of compiling")
    (found,) = page.verdict.findings
    page = page._replace(
        verdict=page.verdict._replace(findings=[found._replace(fix=fix)])
    )
    assert (
        "    set it (fp8tune lint --unsafe-fixes)\n      minutes of compiling\n"
    ) in text(page)


def test_colour_is_for_headings():
    bare, coloured = text(explain("FP8101")), text(explain("FP8101"), colour=True)
    assert "\x1b" not in bare
    assert coloured.startswith("\x1b[1mfp8-with-tensor-parallel (FP8101)\x1b[0m\n")
    assert coloured.replace("\x1b[1m", "").replace("\x1b[0m", "") == bare


def test_a_config_cannot_act_on_the_terminal(config):
    read = config(
        '[model]\nmodel_type = "\\u001b[31mx\\u009b"\n[train]\nseq_len = 16\n'
    )
    shown = text(explain("model.model_type", read))
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert r"\u001b[31mx\u009b" in shown


def test_a_path_cannot_act_on_the_terminal(config):
    page = explain("FP8101", config())
    page = page._replace(verdict=page.verdict._replace(path="\x1b[31m.toml"))
    assert "\x1b" not in text(page)


def test_a_list_is_a_column_of_names():
    page = ListPage("a", "b", [explain("video").entries[0]] * 2)
    line = "video.data_root  Folder of the video data set."
    assert text(page) == f"a\nb\n\n{line}\n{line}"


@each(
    ("value", "shown"),
    [
        (1.0009765, "1.00098"),
        (8030261248, "8030261248"),
        (1e-8, "1e-08"),
        (True, "true"),
        ((1, 2), "[1, 2]"),
        (None, "unset"),
    ],
)
def test_values(value, shown):
    assert tree(Node("a", value, True, "", "")) == [f"  a = {shown}"]


def test_prose_is_wrapped_by_paragraph():
    assert prose("a\nb\n\n\nc") == ["  a b", "  c"]
    assert prose("") == []
    assert max(map(len, prose("word " * 60))) <= WIDTH
