"""What freeze specs leave to train."""

import pytest

from tests.each import each

EAGER = "[train]\ncompile_model = false\n"


def spec(module, frozen=True):
    return f'{{ module = "{module}", frozen = {str(frozen).lower()} }}'


def freeze(*specs):
    return f"freeze = [{', '.join(specs)}]\n"


def schedule(**stages):
    entries = (
        f"{{ start_step = {name.removeprefix('s')}, specs = [{specs}] }}"
        for name, specs in stages.items()
    )
    return f"freeze_schedule = [{', '.join(entries)}]\n"


@each(
    ("vlm", "frozen"),
    [
        ("", ["vision_encoder"]),
        (freeze(), []),
        (freeze(spec("transformer"), spec("adapter")), ["transformer", "adapter"]),
        (freeze(spec("transformer"), spec("transformer", False)), []),
        (freeze(spec("*")), ["transformer", "adapter", "vision_encoder"]),
        (freeze(spec("*"), spec("adapter", False)), ["transformer", "vision_encoder"]),
        (
            'arch = "mot"\n' + freeze(spec("transformer"), spec("mot", False)),
            [],
        ),
        (freeze(spec("transformer.layers.0.*")), []),
        ("freeze = ['adapter']", None),
        (freeze(spec("x")) + "module_patterns = { x = ['adapter.*'] }", ["adapter"]),
    ],
)
def test_frozen(vlm_value, vlm, frozen):
    assert vlm_value("frozen", vlm) == frozen


@each(
    ("vlm", "trains"),
    [
        ("", True),
        (freeze(spec("vision_encoder"), spec("adapter")), True),
        (freeze(spec("transformer")), False),
        (freeze(spec("transformer", False)), True),
        ('arch = "mot"\n' + freeze(spec("mot")), False),
        (freeze(spec("*")), False),
    ],
)
def test_decoder_trains(vlm_value, vlm, trains):
    assert vlm_value("decoder_trains", vlm) == trains


@each(
    ("vlm", "encoder", "step"),
    [
        ("", "", -1),
        (freeze(spec("transformer"), spec("adapter")), "", 0),
        (freeze(spec("transformer"), spec("adapter")), 'type = "clip"', -1),
        (freeze(spec("transformer")) + schedule(s9=spec("adapter")), "", 9),
        (freeze(spec("transformer")) + schedule(s100000=spec("adapter")), "", -1),
        (
            freeze(spec("transformer"))
            + schedule(s5=spec("transformer", False), s9=spec("adapter")),
            "",
            -1,
        ),
    ],
)
def test_idle(vlm_value, vlm, encoder, step):
    assert vlm_value("idle_from", vlm, encoder, rest=EAGER) == step


def test_stages_of_a_compiled_model_are_not_followed(vlm_value):
    stages = freeze(spec("transformer")) + schedule(s9=spec("adapter"))
    assert vlm_value("idle_from", stages) is None


@each(
    ("vlm", "encoder", "names"),
    [
        ("", "", []),
        (
            freeze(spec("transformer")) + schedule(s9=spec("transformer", False)),
            "",
            ["transformer"],
        ),
        (
            freeze(spec("transformer")) + schedule(s0=spec("transformer", False)),
            "",
            [],
        ),
        (schedule(s9=spec("adapter"), s20=spec("adapter", False)), "", []),
        (schedule(s9=spec("vision_encoder", False)), "", []),
        (
            schedule(s9=spec("vision_encoder", False)),
            'type = "clip"',
            ["vision_encoder"],
        ),
        (
            'arch = "mot"\n'
            + freeze(spec("transformer"))
            + schedule(s9=spec("mot", False)),
            "",
            ["mot"],
        ),
    ],
)
def test_never_trained(vlm_value, vlm, encoder, names):
    assert vlm_value("never_trained", vlm, encoder) == names


def test_idle_stages(vlm_value):
    stages = schedule(s0=spec("adapter"), s10=spec("adapter"), s100000=spec("adapter"))
    assert vlm_value("idle_stages", stages) == [0, 100000]


@pytest.mark.parametrize("written", ["freeze_schedule = [5]", "module_patterns = 5"])
def test_odd_freezing_is_unknown(vlm_value, written):
    vlm = f"{freeze(spec('transformer'))}{written}"
    assert vlm_value("idle_from", vlm) is None


def patterns(**aliases):
    return (
        f"module_patterns = {{ {', '.join(f'{k} = {v}' for k, v in aliases.items())} }}"
    )


@each(
    ("aliases", "lost"),
    [
        ("", [9]),
        (patterns(adapter=["adapter.*"]), [9]),
        (patterns(adapter=["adapter.*", "_orig_mod.adapter.*"]), []),
        (patterns(adapter=["*adapter*"]), []),
        (patterns(adapter=["[_a]*"]), []),
        (patterns(adapter=["_orig_mod.*"]), []),
    ],
)
def test_stages_that_a_compiled_model_loses(vlm_value, aliases, lost):
    stages = schedule(s0=spec("adapter"), s9=spec("adapter"), s100000=spec("adapter"))
    assert vlm_value("compiled_stages", stages + aliases) == lost


@each(
    ("written", "empty"),
    [
        (["transformer", "transformer.*"], []),
        (["transformer"], ["transformer"]),
        (["layers.*", "transformer.norm.*"], ["layers.*"]),
        (["transformer.layers.31.*", "transformer.layers.3*"], []),
        (["transformer.layers.32.*"], ["transformer.layers.32.*"]),
        (["transformer.layers.3"], ["transformer.layers.3"]),
        (["transformer.layers.3.mlp.up_proj.weight"], []),
        (
            ["transformer.cross_attention_layers.*"],
            ["transformer.cross_attention_layers.*"],
        ),
        (["transformer.mot_norms.*"], ["transformer.mot_norms.*"]),
        (["vision_encoder.model.layers.99.*"], []),
        (["*.attention.*", "?", "[tv]*"], []),
        (["_orig_mod.transformer.*"], []),
        (["Transformer.*"], ["Transformer.*"]),
    ],
)
def test_patterns_that_match_nothing(vlm_value, written, empty):
    vlm = freeze(spec("x")) + patterns(x=written, unused=["nothing"])
    assert vlm_value("empty_patterns", vlm) == empty


@each(
    ("arch", "ac", "pattern", "empty"),
    [
        ("cross_attention", "none", "transformer.cross_attention_layers.*", False),
        ("mot", "none", "transformer.mot_norms.*", False),
        ("joint_decoder", "full", "transformer.layers.0.mlp.*", True),
        ("joint_decoder", "selective", "transformer.layers.0.mlp.*", False),
        ("mot", "full", "transformer.layers.0.mlp.*", False),
        ("joint_decoder", "full", "transformer.layers.0.*", False),
    ],
)
def test_names_follow_the_model(vlm_value, arch, ac, pattern, empty):
    vlm = f'arch = "{arch}"\n' + freeze(spec("x")) + patterns(x=[pattern])
    rest = f'[train]\nactivation_checkpointing = "{ac}"\n'
    found = vlm_value("empty_patterns", vlm, rest=rest)
    assert found == ([pattern] if empty else [])


@pytest.mark.parametrize(
    "odd", ["5", "[5]", '["transformer.*"]', "{ x = 5 }", "{ x = [5] }"]
)
def test_odd_patterns_are_unknown(vlm_value, odd):
    vlm = freeze(spec("x")) + f"module_patterns = {odd}"
    assert vlm_value("empty_patterns", vlm) is None


def test_a_model_of_many_layers_costs_nothing(vlm_value):
    vlm = freeze(spec("x")) + patterns(x=["transformer.layers.7.*"])
    rest = f"[model]\nn_layers = {10**15}\n"
    assert vlm_value("empty_patterns", vlm, rest=rest) == []
