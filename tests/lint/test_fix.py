"""The fix of a finding: which one is taken, what it writes, and when there is none."""

import pytest

from fp8tune.lint.diagnostic import Change, Region
from fp8tune.lint.rewrite import apply_fixes, fixed_bytes
from tests.each import each
from tests.lint.conftest import fix

PP = "[distributed]\npp = 2\n"


@pytest.fixture
def offered(a_rule, looks):
    """The fix that a rule with these fixes offers for a config, and what it makes."""

    def run(text, *fixes, world_size=0, **rule):
        look = looks(a_rule(*fixes, **rule), world_size=world_size)
        (found,) = look(text.encode()).diagnostics
        return found.fix, fixed_bytes(text.encode(), [found]).decode()

    return run


def test_what_a_fix_holds(offered):
    body = 'set = { pp = "1" }'
    made, _ = offered(PP, fix(body, "unsafe").replace('"repair"', '"was {pp}"'))
    change = Change(19, 20, "1", Region(2, 6, 2, 7))
    assert made == ("unsafe", "was 2", "much", (change,), False, "")


@each(
    ("body", "after"),
    [
        ('set = { pp = "1" }', "[distributed]\npp = 1\n"),
        ('set = { "distributed.pp" = "1" }', "[distributed]\npp = 1\n"),
        ('set = { tp = "pp * 2" }', "[distributed]\npp = 2\ntp = 4\n"),
        (
            'set = { micro_batch = "1", seq_len = "2" }',
            None,
        ),
        (
            'set = { micro_batch = "1", "train.seq_len" = "2" }',
            f"{PP}\n[train]\nbatch_size = 1\nseq_len = 2\n",
        ),
        ('set = { pp = "[1, true]" }', "[distributed]\npp = [1, true]\n"),
        ("rename = { pp = \"'tp'\" }", "[distributed]\ntp = 2\n"),
        (
            "move = { pp = \"'model.layers'\" }",
            "[distributed]\n\n[model]\nlayers = 2\n",
        ),
        ("header = { pp = \"'x'\" }", "[distributed]\n[x]\npp = 2\n"),
        ('remove = ["tp", "pp", "cp"]', "[distributed]\n"),
        ('remove = ["pp"]\nset = { tp = "2" }', "[distributed]\ntp = 2\n"),
    ],
)
def test_verbs(offered, body, after):
    made, text = offered(PP, fix(body))
    assert (made and text) == after


@each(
    "body",
    [
        'set = { pp = "world_size" }',
        'set = { pp = "tp // 0" }',
        "when = 'world_size > 1'\nset = { pp = '1' }",
        'set = { ffn_size = "1" }',
        'set = { head_dim = "64" }',
        "rename = { pp = \"'tp'\" }\nset = { tp = '3' }\nremove = ['pp']",
        "rename = { tp = \"'pp'\" }",
        'remove = ["tp"]',
        'set = { pp = "9223372036854775807 + 1" }',
    ],
)
def test_no_fix(offered, body):
    assert offered(PP, fix(body))[0] is None


def test_the_first_that_applies_is_taken(offered):
    fixes = [
        fix('when = "pp > 2"\nset = { pp = "1" }'),
        fix('when = "world_size > 2"\nset = { pp = "3" }'),
        fix('set = { head_dim = "1" }'),
        fix('set = { pp = "4" }', "unsafe"),
        fix('set = { pp = "5" }'),
    ]
    assert offered(PP, *fixes)[1] == "[distributed]\npp = 4\n"
    assert offered(PP, *fixes, world_size=8)[1] == "[distributed]\npp = 3\n"


BETAS = """\
[train]
mixed_precision = "fp8"
[optimizer]
betas = [
    0.9, # as in GPT-3
    0.999, # Adam paper
]
"""
SWAPPED = """\
[vision_encoder]
[data]
hf_dataset_name = "x/y"
tokenizer_path = "/data/tokenizer"
[vlm]
arch = "mot"
mot_modalities = [
    "text",  # first
    "image",
]
"""


def test_only_the_item_of_an_array_changes(builtin, looks):
    said = apply_fixes(BETAS.encode(), looks(*builtin), unsafe=True).data.decode()
    assert said == BETAS.replace("0.999", "0.95")


@pytest.mark.parametrize("comment", [True, False])
def test_a_fix_that_would_lose_a_comment_is_not_offered(builtin, looks, comment):
    text = SWAPPED if comment else SWAPPED.replace("  # first", "")
    report = looks(*builtin)(text.encode())
    found = next(d for d in report.diagnostics if "mot_modalities" in d.key)
    assert (found.fix is None) is comment


LARGE = """# fp8tune: gpu=h100 world-size={gpus}
[model]
dim = {dim}
n_layers = {layers}
n_heads = {heads}
n_kv_heads = 8
ffn_dim_multiplier = 1.3
vocab_size = 128256
max_seq_len = 4096
[train]
batch_size = {batch}
seq_len = 4096
grad_accum_steps = {accum}
max_steps = 10000
mixed_precision = "{precision}"
activation_checkpointing = "full"
[distributed]
tp = {tp}
[checkpoint]
load_path = "x/step_1"
"""
SEVENTY = {"dim": 8192, "layers": 80, "heads": 64, "gpus": 64, "batch": 1, "accum": 1}
THIRTEEN = {"dim": 5120, "layers": 40, "heads": 40, "gpus": 16}


def test_a_fix_that_does_not_fit_is_not_offered(lint):
    found = {
        d.rule: d
        for d in lint(LARGE.format(**SEVENTY, precision="fp8", tp=8)).diagnostics
    }
    refused = found["fp8-with-tensor-parallel"]
    assert refused.fix is None
    assert "no fix is offered, because then the run needs about 130 GiB" in (
        refused.help
    )
    small = SEVENTY | {"dim": 4096, "layers": 32, "heads": 32}
    (fits,) = lint(LARGE.format(**small, precision="fp8", tp=8)).diagnostics
    assert fits.fix is not None


@pytest.mark.parametrize(("batch", "fixable"), [(4, True), (8, False)])
def test_a_finding_does_not_depend_on_its_fix(lint, batch, fixable):
    values = THIRTEEN | {"batch": batch, "accum": 2}
    found = {
        d.rule: d
        for d in lint(LARGE.format(**values, precision="bf16", tp=1)).diagnostics
    }
    assert "out-of-memory" in found
    kept = found["gradients-kept-unsharded"]
    assert bool(kept.fix) is fixable
    assert ("no fix is offered" in kept.help) is not fixable
