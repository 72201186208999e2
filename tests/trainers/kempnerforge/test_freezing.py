"""What freeze specs leave to train."""

from tests.each import each


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
        (freeze(spec("*")), ["transformer", "adapter", "vision_encoder"]),
        (
            'arch = "mot"\n' + freeze(spec("transformer"), spec("mot", False)),
            [],
        ),
        ("freeze = ['adapter']", None),
        (freeze(spec("x")) + "module_patterns = { x = ['adapter.*'] }", ["adapter"]),
    ],
)
def test_frozen(vlm_value, vlm, frozen):
    assert vlm_value("frozen", vlm) == frozen


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
        (
            ["transformer.cross_attention_layers.*"],
            ["transformer.cross_attention_layers.*"],
        ),
        (["_orig_mod.transformer.*"], []),
        (["Transformer.*"], ["Transformer.*"]),
    ],
)
def test_patterns_that_match_nothing(vlm_value, written, empty):
    vlm = freeze(spec("x")) + patterns(x=written, unused=["nothing"])
    assert vlm_value("empty_patterns", vlm) == empty


def test_a_model_of_many_layers_costs_nothing(vlm_value):
    vlm = freeze(spec("x")) + patterns(x=["transformer.layers.7.*"])
    rest = f"[model]\nn_layers = {10**15}\n"
    assert vlm_value("empty_patterns", vlm, rest=rest) == []
