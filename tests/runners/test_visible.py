"""Which GPU torch takes as its first, by the environment and what the driver lists."""

import pytest

from fp8tune.runners.visible import (
    Visible,
    listed_gpus,
    visible_gpus,
)

LISTING = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11aa)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-22bb)
  MIG 1g.10gb     Device  0: (UUID: MIG-33cc)
  MIG 2g.20gb     Device  1: (UUID: MIG-44dd)
"""
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
    assert visible_gpus(listed_gpus(LISTING), environment) == is_
