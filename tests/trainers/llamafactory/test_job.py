"""What a file means beyond its values."""

from tests.each import each

FILE = """
model_name_or_path: Qwen/Qwen2.5-7B
stage: {}
do_train: true
finetuning_type: full
dataset: alpaca_en_demo
template: qwen
bf16: true
fp8: true
fp8_backend: {}
per_device_train_batch_size: {}
"""


@each(
    ("stage", "backend", "batch", "more", "any_length", "head"),
    [
        ("sft", "torchao", 1, "", True, False),
        ("sft", "torchao", 2, "", False, False),  # samples are multiples of 8
        ("sft", "torchao", 1, "packing: true\n", False, False),
        ("pt", "torchao", 1, "", False, False),  # packs
        ("pt", "torchao", 2, "packing: false\n", True, False),
        ("sft", "te", 1, "", False, True),
    ],
)
def test_tokens_and_head(job, stage, backend, batch, more, any_length, head):
    found = job(FILE.format(stage, backend, batch) + more, transformers="4.57.6")
    fields = found["float8_any_length"], found["fp8_converts_head"]
    assert fields == (any_length, head)
