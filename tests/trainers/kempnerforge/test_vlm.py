"""What VLM sections build."""

import pytest

from tests.each import each


@pytest.mark.parametrize(
    ("vlm", "sizes"),
    [
        ("", (32, 32, 4096, 4096)),
        ("cross_attention_n_heads = 16", (16, 16, 4096, 4096)),
        (
            "cross_attention_n_heads = 16\ncross_attention_n_kv_heads = 4",
            (16, 4, 4096, 1024),
        ),
        ("cross_attention_n_heads = 12", (12, 12, 4092, 4092)),
    ],
)
def test_cross_attention_sizes(vlm_value, vlm, sizes):
    arch = f'arch = "cross_attention"\n{vlm}'
    names = ("cross_heads", "cross_kv_heads", "cross_q_size", "cross_kv_size")
    assert tuple(vlm_value(name, arch) for name in names) == sizes


@each(
    ("vlm", "encoder", "adapter", "rest", "positions"),
    [
        ("max_text_len = 100", "", "", "", 116),
        ("max_text_len = 100", "", 'type = "avgpool"', "", 101),
        ("max_text_len = 100", 'type = "clip"', "", "", 101),
        ("max_text_len = 100", "", "", "[video]\nmax_frames = 8\n", 228),
        ('max_text_len = 100\narch = "cross_attention"', "", "", "", 100),
        ("max_text_len = 100", "num_tokens = 4", "", "", None),
    ],
)
def test_probed_positions(vlm_value, vlm, encoder, adapter, rest, positions):
    assert vlm_value("probed_positions", vlm, encoder, adapter, rest) == positions
