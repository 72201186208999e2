"""Which GPU torch takes as its first, by the environment and what the driver lists."""

import pytest

from fp8tune.runners.visible import (
    Visible,
    first_visible_name,
    listed_gpus,
    visible_gpu,
)

LISTING = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11aa)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-22bb)
  MIG 1g.10gb     Device  0: (UUID: MIG-33cc)
  MIG 2g.20gb     Device  1: (UUID: MIG-44dd)
"""


@pytest.mark.parametrize(
    ("devices", "is_"),
    [
        (None, Visible("0")),
        ("", Visible("0")),
        ("0,1", Visible("0")),
        ("GPU-11", Visible("0")),
        ("1", Visible("1", "1g.10gb", "MIG-33cc")),
        ("GPU-22bb", Visible("1", "1g.10gb", "MIG-33cc")),
        ("MIG-44dd", Visible("1", "2g.20gb", "MIG-44dd")),
        ("MIG-unknown", None),
        ("7", None),
    ],
)
def test_the_gpu_or_slice_that_torch_takes(devices, is_):
    environment = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
    assert visible_gpu(first_visible_name(environment), listed_gpus(LISTING)) == is_
