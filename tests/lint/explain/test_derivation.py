"""Where a value comes from, line by line."""

from fp8tune.lint.explain.derivation import Node, brief, derive, missing, unit
from tests.each import each

WORLD_SIZE = "add --world-size 16, or `# fp8tune: world-size=16` at the top of the file"


@each(
    ("prose", "wanted"),
    [
        ("Total memory of the GPU as torch reports it [GiB].", "GiB"),
        ("Sharded state [GiB]; 0 if shards are unknown.", "GiB"),
        ("Shape [M, K, N].", ""),
        ("Nothing.\n\nMore about it [GiB].", ""),
    ],
)
def test_unit(prose, wanted):
    assert unit(prose) == wanted


@each(
    ("name", "node"),
    [
        (
            "micro_batch",
            Node("micro_batch", 4, True, "sequences", "train.batch_size, line 7"),
        ),
        ("train.seq_len", Node("train.seq_len", 2048, True, "", "default")),
        ("world_size", Node("world_size", 8, True, "", "the comment on line 1")),
        ("vlm.arch", Node("vlm.arch", None, False, "", "there is no [vlm]")),
        (
            "head_dim",
            Node(
                "head_dim",
                205,
                True,
                "",
                "",
                "2050 // 10",
                (
                    Node("hidden_size", 2050, True, "", "model.dim, line 3"),
                    Node("heads", 10, True, "", "model.n_heads, line 4"),
                ),
            ),
        ),
    ],
)
def test_derive(config, name, node):
    assert derive(name, config(gpu="h200")) == node


def test_a_refused_value_is_unknown(config):
    read = config("[train]\nbatch_size = 0\n[model]\ndim = 64\n")
    assert derive("micro_batch", read) == Node(
        "micro_batch",
        None,
        False,
        "sequences",
        "train.batch_size, line 2, where its value is refused",
    )


def test_what_a_user_can_supply_is_named(config):
    node = derive("dp_shard", config("[model]\ndim = 64\n[train]\nseq_len = 16\n"))
    assert (node.known, node.origin) == (False, "needs world_size")
    assert missing(node) == [Node("world_size", None, False, "", WORLD_SIZE)]


def test_a_fact_says_itself_why_it_is_unknown(config):
    node = derive(
        "params.count", config("[model]\nnum_experts = 8\n[train]\nseq_len = 16\n")
    )
    assert (node.known, node.origin) == (
        False,
        "unknown if dense_ffn_layers != layers",
    )


def nodes(node):
    yield node
    for part in node.inputs:
        yield from nodes(part)


def test_a_brief_one_has_two_levels_and_no_zeros(config):
    node = brief("memory.peak_gib", config())
    whole = derive("memory.peak_gib", config())
    assert node.value == whole.value
    terms = [each for one in node.inputs for each in one.inputs]
    assert terms
    assert [each.name for each in terms if each.inputs] == []
    zeros = {each.name for each in (*node.inputs, *terms) if each.value == 0}
    assert zeros <= {each.name for each in terms if each.value is False}
    assert "memory.routers_gib" in {each.name for each in nodes(whole)}


def test_every_name_can_be_derived(config):
    read = config(gpu="h100")
    for name in (*read.job.words.names(), "gpu", "world_size"):
        node = derive(name, read)
        assert node.name == name
        assert node.known or node.origin
