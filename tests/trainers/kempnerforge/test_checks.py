"""The checks of the trainer that data cannot say."""

import pytest

from tests.each import each


def faults(loaded):
    return [(fault.kind, fault.facts["key"]) for fault in loaded.faults]


@each(
    ("text", "found"),
    [
        ("[data]\ndatasets = []", []),
        ("[[data.datasets]]\npath = 'x'", []),
        ("[[data.datasets]]\nhf_name = 'x'", []),
        (
            "[[data.datasets]]\nweight = 1",
            [("dataset-without-source", "data.datasets[0]")],
        ),
        (
            "[[data.datasets]]\npath = ''\nhf_name = ''",
            [("dataset-without-source", "data.datasets[0]")],
        ),
        (
            "[[data.datasets]]\npath = 'x'\n[[data.datasets]]\nname = 'y'",
            [("dataset-without-source", "data.datasets[1]")],
        ),
        ("[data]\ndatasets = ['x']", [("entry-not-a-table", "data.datasets[0]")]),
        ("[data]\ndatasets = 'x'", [("entry-not-a-table", "data.datasets[0]")]),
        ("[data]\ndatasets = 5", [("entry-not-a-table", "data.datasets[0]")]),
        (
            "[data]\ndatasets = [5, {}]",
            [
                ("entry-not-a-table", "data.datasets[0]"),
                ("dataset-without-source", "data.datasets[1]"),
            ],
        ),
        ("[data.datasets]\npath = 'x'", [("entry-not-a-table", "data.datasets[0]")]),
    ],
)
def test_datasets(load, text, found):
    assert faults(load(text)) == found


def phases(*steps):
    return "".join(f"[[data.phases]]\nstart_step = {step}\n" for step in steps)


@each(
    ("text", "found"),
    [
        ("", []),
        ("[data]\nphases = []", []),
        (phases(0), []),
        (phases(0, 5, 9), []),
        (phases(0, 5, 5), ["steps-not-increasing"]),
        (phases(5, 0), ["steps-not-increasing"]),
        (phases(0) + "[[data.phases]]\n", ["steps-not-increasing"]),
        ("[[data.phases]]\n" + phases(5), []),
        (phases(0, -5), ["value-out-of-range"]),
        (phases(0, "'x'"), ["value-not-convertible"]),
        ("[data]\nphases = 5", ["entry-not-a-table"]),
        (
            "[data]\nphases = [{start_step = 9}, 5, {start_step = 1}]",
            ["entry-not-a-table"],
        ),
        ("[data.phases]\nstart_step = 5", ["entry-not-a-table"]),
    ],
)
def test_phases(load, text, found):
    assert [fault.kind for fault in load(text).faults] == found


def stages(*steps):
    return "".join(
        f"[[vlm.freeze_schedule]]\nstart_step = {step}\nspecs = []\n" for step in steps
    )


@each("arch", ["joint_decoder", "cross_attention", "mot", "moma"])
@each(
    ("steps", "found"),
    [
        ((0, 5), []),
        ((-5, 5), []),
        ((5, 5), ["steps-not-increasing"]),
        ((5, 0), ["steps-not-increasing"]),
        (("[]", 5), ["steps-not-increasing"]),
        ((5, "2024-01-01"), ["steps-not-increasing"]),
    ],
)
def test_freeze_schedule(load, arch, steps, found):
    loaded = load(f"[vlm]\narch = '{arch}'\n{stages(*steps)}")
    assert [fault.kind for fault in loaded.faults] == found


def test_a_stage_without_its_step_is_not_compared(load):
    text = "[vlm]\n" + stages(5) + "[[vlm.freeze_schedule]]\nspecs = []\n"
    assert faults(load(text)) == [("missing-key", "vlm.freeze_schedule[1].start_step")]


@each(
    ("weights", "found"),
    [
        ("{}", []),
        ("{ a = 1, b = 0.0 }", []),
        ("{ a = true }", []),
        ("{ a = nan }", []),
        ("{ a = -1 }", [("value-out-of-range", "data.phases[0].dataset_weights.a")]),
        ("{ a = 'x' }", [("wrong-type", "data.phases[0].dataset_weights.a")]),
        (
            "{ a = [1], b = -1 }",
            [
                ("wrong-type", "data.phases[0].dataset_weights.a"),
                ("value-out-of-range", "data.phases[0].dataset_weights.b"),
            ],
        ),
        ("[1]", [("wrong-type", "data.phases[0].dataset_weights")]),
        ("5", [("wrong-type", "data.phases[0].dataset_weights")]),
    ],
)
def test_dataset_weights(load, weights, found):
    assert faults(load(f"[[data.phases]]\ndataset_weights = {weights}\n")) == found


@pytest.mark.parametrize("weights", ["{ a = -1 }", "[1]", "5", "{ a = 'x' }"])
def test_anneal_weights_are_not_checked(load, weights):
    assert load(f"[data]\nanneal_weights = {weights}\n").faults == []


@each(
    ("value", "reason"),
    [
        ('["image", "text"]', ""),
        ('["text", "image", "video"]', ""),
        ('["image"]', "needs at least two entries"),
        ("[]", "needs at least two entries"),
        ('["image", "audio"]', 'has no "text"'),
        ('["Image", "text"]', 'has no "image"'),
        ('["image", "text", "text"]', "contains a duplicate"),
        ('[["image"], "text"]', 'has no "image"'),
        ('["image", "text", []]', "is not an array of names"),
        ("5", "is not an array of names"),
        ('"image text"', "contains a duplicate"),
        ("{ image = 1, text = 2 }", ""),
    ],
)
def test_modalities(load, value, reason):
    loaded = load(f"[vlm]\narch = 'mot'\nmot_modalities = {value}\n")
    assert [fault.facts["reason"] for fault in loaded.faults] == [reason] * bool(reason)
    assert ("vlm.mot_modalities" in loaded.values) is not bool(reason)


@each(
    ("text", "reason"),
    [
        ("", ""),
        ("moma_experts_per_modality = { image = 1, text = 2 }", ""),
        ("moma_experts_per_modality = { image = 1.5, text = true }", ""),
        ("moma_experts_per_modality = { image = 1 }", "has no count for text"),
        ("moma_experts_per_modality = {}", "has no count for image, text"),
        (
            "moma_experts_per_modality = { image = 1, text = 1, video = 1 }",
            "has an unknown modality: video",
        ),
        (
            "moma_experts_per_modality = { image = 0, text = 1 }",
            "needs at least one expert for image",
        ),
        (
            "moma_experts_per_modality = { image = 1, text = 'x' }",
            "needs a number for text",
        ),
        ("moma_experts_per_modality = [4, 4]", "is not a table of expert counts"),
        ("moma_modalities = ['image', 'text', 'video']", "has no count for video"),
        (
            "moma_modalities = ['image', 'text', 5]",
            "has no count for a modality that is not a name",
        ),
    ],
)
def test_experts(load, text, reason):
    loaded = load(f"[vlm]\narch = 'moma'\n{text}\n")
    assert [fault.facts["reason"] for fault in loaded.faults] == [reason] * bool(reason)
    assert [fault.facts["key"] for fault in loaded.faults] == [
        f"vlm.{text.split(' ')[0]}"
    ] * bool(reason)


def test_experts_are_not_compared_with_bad_modalities(load):
    loaded = load("[vlm]\narch = 'moma'\nmoma_modalities = ['image']\n")
    assert faults(loaded) == [("bad-modalities", "vlm.moma_modalities")]


@pytest.mark.parametrize("arch", ["joint_decoder", "cross_attention", "moma"])
def test_a_check_belongs_to_its_variant(load, arch):
    kinds = [
        fault.kind
        for fault in load(f"[vlm]\narch = '{arch}'\nmot_modalities = []\n").faults
    ]
    assert kinds == ["unknown-key"]
