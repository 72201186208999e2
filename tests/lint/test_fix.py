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
        ('set = { tp = "2", dp_replicate = "3" }', f"{PP}tp = 2\ndp_replicate = 3\n"),
        ('set = { micro_batch = "1" }', f"{PP}\n[train]\nbatch_size = 1\n"),
        (
            'set = { micro_batch = "1", seq_len = "2" }',
            None,
        ),
        (
            'set = { micro_batch = "1", "train.seq_len" = "2" }',
            f"{PP}\n[train]\nbatch_size = 1\nseq_len = 2\n",
        ),
        ("set = { pp = \"'1f1b'\" }", '[distributed]\npp = "1f1b"\n'),
        ('set = { pp = "[1, true]" }', "[distributed]\npp = [1, true]\n"),
        ("rename = { pp = \"'tp'\" }", "[distributed]\ntp = 2\n"),
        (
            "move = { pp = \"'model.layers'\" }",
            "[distributed]\n\n[model]\nlayers = 2\n",
        ),
        ("header = { pp = \"'x'\" }", "[distributed]\n[x]\npp = 2\n"),
        ('remove = ["pp"]', "[distributed]\n"),
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
        'when = "pp < 2"\nset = { pp = "1" }',
        'set = { ffn_size = "1" }',
        'set = { dp_shard = "1" }',
        'set = { head_dim = "64" }',
        "rename = { pp = \"'tp'\" }\nset = { tp = '3' }\nremove = ['pp']",
        "rename = { tp = \"'pp'\" }",
        "move = { pp = \"'pp'\" }\nset = { pp = '1' }",
        'remove = ["tp"]',
        'set = { pp = "9223372036854775807 + 1" }',
    ],
)
def test_no_fix(offered, body):
    assert offered(PP, fix(body))[0] is None


@pytest.mark.parametrize("place", ["title", "changes"])
def test_no_fix_without_its_words(offered, place):
    text = fix('set = { pp = "1" }')
    for word in ("repair", "much"):
        if (word == "repair") == (place == "title"):
            text = text.replace(word, "{world_size}")
    assert offered(PP, text)[0] is None
    assert offered(PP, text, world_size=2)[1] == "[distributed]\npp = 1\n"


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


@pytest.mark.parametrize(
    ("text", "name", "after"),
    [
        (
            "[model]\nffn_hidden_dim = 100\n",
            "ffn_size",
            "[model]\nffn_hidden_dim = 1\n",
        ),
        ("[model]\nffn_dim_multiplier = 1.5\n", "ffn_size", None),
        ("[distributed]\ndp_shard = 4\n", "dp_shard", "[distributed]\ndp_shard = 1\n"),
        ("[distributed]\ndp_shard = -1\n", "dp_shard", None),
        ("[model]\ndim = 4096\n", "head_dim", None),
    ],
)
def test_a_computed_field_is_set_where_a_key_says_it_alone(offered, text, name, after):
    made, said = offered(text, fix(f'set = {{ {name} = "1" }}'), when="true")
    assert (made and said) == after


@pytest.mark.parametrize(
    ("text", "body", "after"),
    [
        (
            "[train]\nbatchsize = 1\n",
            "rename = {{ fault = {meant} }}",
            "batch_size = 1",
        ),
        ("[train]\nbatchsize = 1\n", "remove = ['fault']", ""),
        ("[train]\nbatchsize = 1\n", "set = {{ fault = '2' }}", "batchsize = 2"),
        ("[train]\nzzzz = 1\n", "rename = {{ fault = {meant} }}", None),
    ],
)
def test_the_fault_itself_is_named(offered, text, body, after):
    body = body.format(meant="'fault.meant'")
    made, said = offered(text, fix(body), fault="unknown-key")
    assert (said.removeprefix("[train]\n").strip() if made else None) == after


def test_a_fault_may_know_its_edits(offered):
    made, _ = offered(
        "\ufeff[train]\n", fix(""), fault="byte-order-mark", category="rejected"
    )
    edits = (Change(-1, 0, "", Region(1, 1, 1, 1)),)
    assert made == ("safe", "repair", "much", edits, True, "")


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
