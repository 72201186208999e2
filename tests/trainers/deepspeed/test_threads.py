"""Configs of threads and of other projects, rebuilt: what lint says of them."""

from fp8tune.job import Target
from fp8tune.lint.engine import check
from tests.each import each
from tests.support.verdicts import lint

AUTO = '"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"'


def findings(text, world_size=0):
    report = lint("ds.json", text, "", world_size)
    return [(found.rule, found.region.line) for found in report.diagnostics]


@each(
    ("text", "world_size", "found"),
    [
        # DeepSpeed#6914: 8 != 2 * 1 * 1
        (
            '{"train_batch_size": 8,\n"train_micro_batch_size_per_gpu": 2,'
            '\n"gradient_accumulation_steps": 1}',
            1,
            [("deepspeed-batch-sizes", 1)],
        ),
        # sequence parallelism leaves four data-parallel ranks
        (
            '{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 1,'
            '\n"gradient_accumulation_steps": 8, "sequence_parallel_size": 2}',
            8,
            [],
        ),
        (
            f'{{{AUTO},\n"torch_autocast": {{"enabled": true, "dtype": "fp8"}}}}',
            8,
            [("deepspeed-refuses-value", 2)],
        ),
        # a key of the same idea at the top, beside one that is read
        (
            f'{{{AUTO},\n"zero_optimisation": {{"stage": 2}},\n"steps_per_print": 9}}',
            0,
            [("unknown-key-ignored", 2)],
        ),
        (
            f'{{{AUTO},\n"compile": {{"backend": "inductor"}}}}',
            0,
            [("unknown-key", 2)],
        ),
        (
            f'{{{AUTO},\n"bf16": {{}},\n"bf16": {{}}}}',
            8,
            [("duplicate-key-refused", 3)],
        ),
    ],
)
def test_findings(text, world_size, found):
    assert findings(text, world_size) == found


def test_auto_is_for_other_programs(rules):
    """What it becomes without them is no finding, and the summary says so."""
    text = f'{{{AUTO}, "bf16": {{"enabled": "auto"}}}}'
    report = check("ds.json", text.encode(), rules, Target("h100", 8))
    assert (report.diagnostics, {*report.unjudged.values()}) == ([], {"auto"})


@each("mark", ["#", "//"])
def test_comments_of_hjson(mark):
    """``#`` and ``//`` begin ignore comments, and the header comment."""
    above = f"{mark} fp8tune: world-size=8\n{{\n"
    text = '"train_batch_size": 9, "train_micro_batch_size_per_gpu": 2}\n'
    ignore = f"{mark} fp8tune: ignore[deepspeed-batch-sizes] -- a reason\n"
    assert findings(above + text) == [("deepspeed-batch-sizes", 3)]
    assert findings(above + ignore + text) == []
    assert findings(f"{above}{mark} fp8tune: ignore [x]\n{text}")[0] == (
        "bad-ignore",
        3,
    )
    assert findings(above.replace("=8", "=x") + text)[0] == ("bad-directive", 1)
