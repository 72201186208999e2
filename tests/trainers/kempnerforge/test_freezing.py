"""What freeze specs leave to train."""

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


@each(
    ("vlm", "encoder", "step"),
    [
        ("", "", -1),
        (freeze(spec("transformer"), spec("adapter")), 'type = "clip"', -1),
        (freeze(spec("transformer")) + schedule(s9=spec("adapter")), "", 9),
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


@each(
    ("vlm", "encoder", "names"),
    [
        ("", "", []),
        (
            freeze(spec("transformer")) + schedule(s9=spec("transformer", False)),
            "",
            ["transformer"],
        ),
        (schedule(s9=spec("vision_encoder", False)), "", []),
        (
            schedule(s9=spec("vision_encoder", False)),
            'type = "clip"',
            ["vision_encoder"],
        ),
    ],
)
def test_never_trained(vlm_value, vlm, encoder, names):
    assert vlm_value("never_trained", vlm, encoder) == names


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
