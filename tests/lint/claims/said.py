"""What the rules about comments say of a config."""

from tests.sample import LLAMA_8B

CONFIG = f"""\
{LLAMA_8B}max_seq_len = 4096
[train]
batch_size = 8
seq_len = 4096
grad_accum_steps = 2
max_steps = 50
mixed_precision = "fp8"
activation_checkpointing = "full"
[scheduler]
warmup_steps = 10
[distributed]
dp_shard = 16
[checkpoint]
interval = 25
"""
FREE = CONFIG.replace("dp_shard = 16\n", "")
TITLE = "Llama 7B on 16 GPUs\n\n"


def said(lint, comment, config=CONFIG, **target):
    """The rules about comments that fire, with the words they point at."""
    header = "".join(f"# {line}\n" for line in comment.split("\n"))
    found = lint(header + config, **target).diagnostics
    return [
        (finding.rule.removesuffix("-in-comment"), words(header, finding.region))
        for finding in found
        if finding.rule.endswith("-in-comment")
    ]


def words(text, region):
    return text.split("\n")[region.line - 1][region.column - 1 : region.end_column - 1]
