"""Which GPU torch takes as its first, by the environment and what the driver lists."""

import pytest

from fp8tune.runners.visible import Listed, Visible, visible_gpus

SLICES = ("1g.10gb", "MIG-33cc"), ("2g.20gb", "MIG-44dd")
LISTED = [Listed("0", "GPU-11aa"), Listed("1", "GPU-22bb", SLICES)]
WHOLE = Visible("0")
SLICE = Visible("1", "1g.10gb", "MIG-33cc")


@pytest.mark.parametrize(
    ("devices", "is_"),
    [
        (None, [WHOLE, SLICE]),
        ("", [WHOLE, SLICE]),
        ("0, 1", [WHOLE, SLICE]),
        ("1,0", [SLICE, WHOLE]),
        ("GPU-11", [WHOLE]),
        ("1", [SLICE]),
        ("GPU-22bb", [SLICE]),
        ("MIG-44dd", [Visible("1", "2g.20gb", "MIG-44dd")]),
        ("MIG-unknown", []),
        ("7", []),
        ("0,7,1", [WHOLE]),
    ],
)
def test_the_gpus_or_slices_that_torch_takes(devices, is_):
    environment = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
    assert visible_gpus(LISTED, environment) == is_
