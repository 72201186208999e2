"""What KempnerForge's loader makes of sections: defaults, optional ones, no tables."""

import pytest

from tests.each import each
from tests.trainers.kempnerforge.loaded import faults, refusals


def test_kv_heads_left_out_become_32(load):
    for text in ("", "[model]\n", "[model]\nn_heads = 64\n"):
        loaded = load(text)
        assert loaded.values["model.n_kv_heads"] == 32
        assert "model.n_kv_heads" not in loaded.written


def test_defaults_of_an_empty_file(load, kempnerforge):
    loaded = load("")
    schema = kempnerforge.schema
    always = [s for s in schema.sections if not schema.optional(s)]
    optional = [s for s in schema.sections if schema.optional(s)]
    assert {name for name in loaded.values if "." in name} == {
        f"{section}.{key}"
        for section in always
        for key in schema.classes[schema.section_class(section)]
    }
    assert {name: loaded.values[name] for name in optional} == dict.fromkeys(
        optional, False
    )
    assert (loaded.written, loaded.faults) == (set(), [])


def test_loading_does_not_change_the_defaults(load):
    before = load("")
    load("[train]\nseq_len = 5\n[model]\ndim = 'x'\n[data.phases]\n")
    assert load("") == before


def test_an_optional_section_brings_its_defaults(load):
    values = load("[vlm]\narch = 'mot'\n[vision_encoder]\n").values
    assert (values["vlm"], values["vision_encoder"], values["video"]) == (
        True,
        True,
        False,
    )
    assert values["vlm.max_text_len"] == 512
    assert values["vlm.mot_modalities"] == ["image", "text"]
    assert values["adapter.pool_window"] == 2
    assert values["adapter"] is False
    assert "vlm.moma_gumbel_noise" not in values


def test_a_nested_optional_table(load):
    assert "checkpoint.dyn_ckpt_window.stop" not in load("[checkpoint]\n").values
    loaded = load("[checkpoint.dyn_ckpt_window]\nstart = 5\n")
    found = {
        key.rpartition(".")[2]: value
        for key, value in loaded.values.items()
        if key.startswith("checkpoint.dyn_ckpt_window.")
    }
    assert found == {"start": 5, "stop": 512, "strategy": "power2"}
    assert loaded.written == {
        "checkpoint",
        "checkpoint.dyn_ckpt_window",
        "checkpoint.dyn_ckpt_window.start",
    }


@pytest.mark.parametrize("written", ["5", "[]", "'x'"])
def test_a_nested_table_that_is_none_is_accepted(load, written):
    loaded = load(f"[checkpoint]\ndyn_ckpt_window = {written}\n")
    assert faults(loaded) == [("table-replaced", "checkpoint.dyn_ckpt_window")]


@each(
    ("text", "sections"),
    [
        ("train = 5", ["train"]),
        ("model = 'x'", ["model"]),
        ("distributed = []", ["distributed"]),
        ("eval = false", ["eval"]),
        ("optimizer = true", []),
        ("scheduler = 'cosine'", []),
        ("data = 5", []),
        ("checkpoint = 5", []),
        ("metrics = 5\nprofiling = []", []),
        ("vlm = 5", []),
        ("adapter = 5", []),
        ("video = 5", []),
        ("vision_encoder = 5", []),
        ("vlm = 5\nvision_encoder = 5", ["vision_encoder"]),
        ("vlm = 5\nvision_encoder = {num_tokens = 4}", ["vlm"]),
        (
            "vlm = {}\nadapter = 5\nvideo = 5\nvision_encoder = {num_tokens = 4}",
            ["adapter", "video"],
        ),
        ("vlm = {}\nadapter = 5\nvision_encoder = {}", []),
    ],
)
def test_a_section_that_is_no_table(load, text, sections):
    loaded = load(text)
    assert refusals(loaded) == [("section-not-a-table", name) for name in sections]


@each(
    ("text", "sections"),
    [
        ("optimizer = true", ["optimizer"]),
        ("[[scheduler]]\nname = 'cosine'", ["scheduler"]),
        ("metrics = 5\nprofiling = []", ["metrics", "profiling"]),
        ("vlm = 5\nvision_encoder = {num_tokens = 4}", []),
        ("vlm = 5", ["vlm"]),
        ("adapter = 5", []),
        ("vlm = {}\nadapter = 5\nvision_encoder = {}", ["adapter"]),
        ("vision_encoder = 5", []),
        ("[optimizer]", []),
    ],
)
def test_a_section_that_fails_only_when_it_is_read(load, text, sections):
    replaced = [key for kind, key in faults(load(text)) if kind == "table-replaced"]
    assert replaced == sections


def test_a_section_that_is_no_table_has_no_values(load):
    loaded = load("optimizer = true\ntrain = 5\n")
    wrong = [k for k in loaded.values if k.startswith(("optimizer.", "train."))]
    assert wrong == []
    assert loaded.written == {"optimizer", "train"}
