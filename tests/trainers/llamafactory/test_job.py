"""What a file means beyond its values."""

from tests.each import each
from tests.sample import LLAMAFACTORY

FILE = LLAMAFACTORY.replace("sft", "{}") + (
    "bf16: true\nfp8: true\nfp8_backend: {}\nper_device_train_batch_size: {}\n"
)


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
