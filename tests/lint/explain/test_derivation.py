"""Where a value comes from, line by line."""

from fp8tune.lint.explain.derivation import Node, brief, derive, missing, unit
from tests.each import each

WORLD_SIZE = "add --world-size 16, or `# fp8tune: world-size=16` at the top of the file"


@each(
    ("prose", "wanted"),
    [
        ("Total memory of the GPU as torch reports it [GiB].", "GiB"),
        ("Sharded state [GiB]; 0 if shards are unknown.", "GiB"),
        ("Tokens of the residual\nstream [tokens] (train.py).", "tokens"),
        ("Sampling rate [frames/s].", "frames/s"),
        ("Shape [M, K, N].", ""),
        ("Nothing.\n\nMore about it [GiB].", ""),
        ("", ""),
    ],
)
def test_unit(prose, wanted):
    assert unit(prose) == wanted


@each(
    ("name", "node"),
    [
        ("train.batch_size", Node("train.batch_size", 4, True, "sequences", "line 7")),
        (
            "micro_batch",
            Node("micro_batch", 4, True, "sequences", "train.batch_size, line 7"),
        ),
        ("train.seq_len", Node("train.seq_len", 2048, True, "", "default")),
        ("tp", Node("tp", 1, True, "", "distributed.tp, default")),
        ("world_size", Node("world_size", 8, True, "", "the comment on line 1")),
        ("gpu", Node("gpu", "h200", True, "", "--gpu")),
        ("vlm", Node("vlm", False, True, "", "there is no [vlm]")),
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


def test_a_gpu_without_the_figure(config):
    node = derive("gpu.memory_gib", config(gpu="gh200"))
    assert not node.known
    assert (
        node.origin == "`gh200` may be gh200-96gb or gh200-144gb: name one with --gpu"
    )


def test_inputs_that_a_result_did_without_are_left_out(config):
    names = [node.name for node in derive("seq_len", config()).inputs]
    assert names == ["vlm", "train.seq_len"]


def test_inputs_that_a_user_could_supply_are_kept(config):
    text = "[model]\ndim = 64\nn_heads = 2\nn_kv_heads = 2\n[train]\nseq_len = 16\n"
    node = derive("step.sequences", config(text))
    assert (node.known, node.value) == (False, None)
    assert "step.ranks" in [part.name for part in node.inputs]


def nodes(node):
    yield node
    for part in node.inputs:
        yield from nodes(part)


def test_what_was_shown_is_not_expanded_again(config):
    every = list(nodes(derive("memory.peak_gib", config())))
    again = [node for node in every if node.origin == "see above"]
    assert again
    shown = {node.name for node in every if node.inputs}
    assert {node.name for node in again} <= shown


def test_depth(config):
    node = derive("memory.peak_gib", config(), 1)
    assert node.inputs
    assert [part for part in node.inputs if part.inputs] == []
    assert derive("memory.peak_gib", config(), 0).inputs == ()


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
