"""What VLM sections build, train and freeze."""

import pytest

from fp8tune.job import Unknown

HEAD = "[vision_encoder]\n{encoder}\n[adapter]\n{adapter}\n[vlm]\n{vlm}\n"


@pytest.fixture
def value(job):
    """One name of the job of a VLM config, None if unknown."""

    def find(name, vlm="", encoder="", adapter="", rest=""):
        text = HEAD.format(encoder=encoder, adapter=adapter, vlm=vlm) + rest
        try:
            return job(text)[name]
        except Unknown:
            return None

    return find


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
def test_cross_attention_sizes(value, vlm, sizes):
    arch = f'arch = "cross_attention"\n{vlm}'
    names = ("cross_heads", "cross_kv_heads", "cross_q_size", "cross_kv_size")
    assert tuple(value(f"vlm_{name}", arch) for name in names) == sizes


@pytest.mark.parametrize(
    ("encoder", "features"),
    [
        ("", 768),
        ("feature_dim = 1024", 1024),
        ('type = "siglip2"', None),
        ('type = "siglip2"\nfeature_dim = 1152', 1152),
    ],
)
def test_features(value, encoder, features):
    assert value("vlm_features", encoder=encoder) == features


@pytest.mark.parametrize(
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
def test_probed_positions(value, vlm, encoder, adapter, rest, positions):
    assert value("vlm_probed_positions", vlm, encoder, adapter, rest) == positions


@pytest.mark.parametrize(
    ("arch", "order", "first", "swapped"),
    [
        ("mot", '["image", "text"]', False, None),
        ("mot", '["text", "image"]', True, None),
        ("moma", '["image", "text"]', None, False),
        ("moma", '["text", "image"]', None, True),
    ],
)
def test_orders(value, arch, order, first, swapped):
    vlm = f'arch = "{arch}"\n{arch}_modalities = {order}'
    assert (value("vlm_text_first", vlm), value("vlm_moma_swapped", vlm)) == (
        first,
        swapped,
    )


@pytest.mark.parametrize(
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
def test_frozen(value, vlm, frozen):
    assert value("vlm_frozen", vlm) == frozen


@pytest.mark.parametrize(
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
def test_decoder_trains(value, vlm, trains):
    assert value("vlm_decoder_trains", vlm) == trains


@pytest.mark.parametrize(
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
def test_idle(value, vlm, encoder, step):
    assert value("vlm_idle_from", vlm, encoder) == step


@pytest.mark.parametrize(
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
def test_never_trained(value, vlm, encoder, names):
    assert value("vlm_never_trained", vlm, encoder) == names


def test_idle_stages(value):
    stages = schedule(s0=spec("adapter"), s10=spec("adapter"), s100000=spec("adapter"))
    assert value("vlm_idle_stages", stages) == [0, 100000]


@pytest.mark.parametrize("written", ["freeze_schedule = [5]", "module_patterns = 5"])
def test_odd_freezing_is_unknown(value, written):
    vlm = f"{freeze(spec('transformer'))}{written}"
    assert value("vlm_idle_from", vlm) is None
