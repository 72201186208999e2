"""What the crash rules say of torch's device meshes and numbers, shown on torch."""

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def mesh():
    """A mesh of 8 ranks that do not exist, seen from rank 0."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group(
        "fake", rank=0, world_size=8, store=FakeStore()
    )
    yield lambda **sizes: init_device_mesh(
        "cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes)
    )
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "sizes",
    [{"dp_replicate": 2, "dp_shard": 4}, {"dp_replicate": 2, "dp_shard": 1, "tp": 4}],
)
def test_one_local_rank_of_two_dimensions_is_refused(mesh, sizes):
    """hybrid-sharding: the trainer asks the data-parallel submesh for one rank."""
    submesh = mesh(**sizes)["dp_replicate", "dp_shard"]
    with pytest.raises(RuntimeError, match="mesh_dim"):
        submesh.get_local_rank()


@pytest.mark.parametrize("shards", [2, 1])
def test_one_group_of_two_dimensions_is_refused(mesh, shards):
    """pipeline-with-sharding: it asks for one process group."""
    submesh = mesh(pp=2, dp_shard=shards, tp=4 // shards)["dp_shard", "tp"]
    with pytest.raises(RuntimeError, match="mesh_dim"):
        submesh.get_group()


def test_one_dimension_is_fine(mesh):
    whole = mesh(pp=2, dp_shard=4)
    assert whole["dp_shard"].get_local_rank() == 0
    assert whole["dp_shard"].get_group() is not None


def test_small_numbers_vanish_in_fp16():
    """fp16-without-scaler: 6e-8 is the smallest number above zero."""
    assert torch.tensor(6e-8, dtype=torch.float16) > 0
    assert torch.tensor(2.9e-8, dtype=torch.float16) == 0
