"""What KempnerForge's loader makes of sections: defaults, optional ones, no tables."""


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


def test_a_section_that_is_no_table_has_no_values(load):
    loaded = load("optimizer = true\ntrain = 5\n")
    wrong = [k for k in loaded.values if k.startswith(("optimizer.", "train."))]
    assert wrong == []
    assert loaded.written == {"optimizer", "train"}
