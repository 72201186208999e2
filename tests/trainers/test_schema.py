"""The schema file: complete, consistent, and read as it says."""

import tomllib
from pathlib import Path

import pytest

from fp8tune.fields import FIELDS
from fp8tune.trainers import schema
from fp8tune.trainers.faults import dotted
from fp8tune.trainers.trainer import Trainer, trainer
from tests.each import each

SCHEMA = trainer("kempnerforge").schema
KEYS = dict(SCHEMA.dotted_keys())
FOLDER = Path(schema.__file__).parent / "kempnerforge"
RAW = tomllib.loads((FOLDER / "schema.toml").read_text(encoding="utf-8"))
PYTHON = {"int": int, "float": float, "bool": bool, "str": str}


def test_a_trainer_is_read_once():
    assert trainer("kempnerforge") is trainer("kempnerforge")
    assert Trainer("kempnerforge").schema == SCHEMA


@each("name", KEYS)
def test_every_key_is_explained(name):
    assert KEYS[name].doc.endswith(".")
    assert len(KEYS[name].doc.split()) > 1


@each("name", KEYS)
def test_defaults_have_the_type_of_their_key(name):
    spec = KEYS[name]
    wanted = PYTHON.get(spec.base)
    if wanted and spec.effective_default is not None:
        assert type(spec.effective_default) is wanted
    if spec.type == spec.base and not spec.required:
        assert spec.effective_default is not None


@each("name", KEYS)
def test_defaults_are_allowed(name):
    spec = KEYS[name]
    if spec.allowed:
        assert spec.default in spec.allowed


@each("name", [name for name in KEYS if KEYS[name].near])
def test_near_values_lead_to_allowed_ones(name):
    spec = KEYS[name]
    words = [word for words in spec.near.values() for word in words]
    assert set(spec.near) <= set(spec.allowed)
    assert len(words) == len(set(words))
    assert [word for word in words if word in spec.allowed] == []


def test_other_names_of_keys_are_unique_and_no_keys():
    words = [word for spec in KEYS.values() for word in spec.aka]
    assert len(words) == len(set(words))
    assert [word for word in words if word != word.casefold()] == []


def test_a_condition_names_a_key_of_the_same_class():
    wrong = [
        (name, key)
        for name, keys in SCHEMA.classes.items()
        for key, spec in keys.items()
        if spec.only_if and spec.only_if not in keys
    ]
    assert wrong == []


def test_the_job_names_keys_and_fields():
    assert set(SCHEMA.job) <= set(FIELDS)
    assert set(SCHEMA.job.values()) <= set(KEYS)
    assert len(set(SCHEMA.job.values())) == len(SCHEMA.job)


def test_sections_and_variants_name_classes():
    names = {SCHEMA.section_class(section) for section in SCHEMA.sections}
    for base, variants in SCHEMA.variants.items():
        names |= {base, *variants.classes.values()}
        assert variants.default in variants.classes
        assert list(SCHEMA.classes[base][variants.key].allowed) == sorted(
            variants.classes
        )
    assert names <= set(SCHEMA.classes)


@pytest.mark.parametrize(
    ("section", "name", "optional"),
    [
        ("model", "ModelConfig", False),
        ("train", "TrainConfig", False),
        ("vlm", "VLMConfig", True),
        ("video", "VideoConfig", True),
    ],
)
def test_sections(section, name, optional):
    assert (SCHEMA.section_class(section), SCHEMA.optional(section)) == (name, optional)


@each(
    "name",
    [
        "model.dim",
        "checkpoint.dyn_ckpt_window",
        "checkpoint.dyn_ckpt_window.stop",
        "vlm.arch",
        "vlm.max_text_len",
        "vlm.mot_modalities",
        "vlm.moma_experts_per_modality",
        "vlm.cross_attention_n_heads",
        "data.datasets",
    ],
)
def test_dotted_keys(name):
    assert name in KEYS


@pytest.mark.parametrize("name", ["vlm", "model", "data.datasets.path", "zzz"])
def test_no_dotted_keys(name):
    assert name not in KEYS


def test_dotted_keys_come_once_but_for_overridden_ones():
    names = [name for name, _ in SCHEMA.dotted_keys()]
    assert sorted(names) == sorted(set(names))


def test_variants_have_the_keys_of_their_base():
    for base, variants in SCHEMA.variants.items():
        for name in variants.classes.values():
            assert set(SCHEMA.classes[base]) <= set(SCHEMA.classes[name])
            own = RAW["classes"][name]
            assert {
                key: spec
                for key, spec in SCHEMA.classes[name].items()
                if key not in own
            } == {
                key: spec
                for key, spec in SCHEMA.classes[base].items()
                if key not in own
            }


@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("FreezeSpec", ("module",)),
        ("FreezeStage", ("start_step", "specs")),
        ("TrainConfig", ()),
    ],
)
def test_required(name, required):
    assert SCHEMA.required[name] == required


@each(
    ("name", "base", "checked"),
    [
        ("model.n_kv_heads", "int", True),
        ("train.data_seed", "int", False),
        ("train.seed", "int", False),
        ("model.max_seq_len", "int", True),
        ("model.sdpa_backend", "str", True),
        ("model.model_type", "str", False),
        ("train.mixed_precision", "Literal", False),
        ("optimizer.betas", "tuple[float, float]", True),
    ],
)
def test_type_and_whether_it_is_checked(name, base, checked):
    assert (KEYS[name].base, KEYS[name].checked) == (base, checked)


def test_the_overlay_is_the_default_that_holds():
    assert [name for name in KEYS if KEYS[name].overlay is not None] == [
        "model.n_kv_heads"
    ]
    assert KEYS["model.n_kv_heads"].effective_default == 32
    assert KEYS["train.seq_len"].effective_default == 2048


def test_section_keys(kempnerforge):
    assert set(kempnerforge.section_keys) == set(SCHEMA.sections)
    assert "dyn_ckpt_window.stop" in kempnerforge.section_keys["checkpoint"]
    assert {"arch", "mot_modalities", "moma_gumbel_noise"} <= kempnerforge.section_keys[
        "vlm"
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("train",), "train"),
        (("train", "seq_len"), "train.seq_len"),
        (("data", "datasets", 0, "path"), "data.datasets[0].path"),
        (("a", 0, 1), "a[0][1]"),
    ],
)
def test_dotted(path, text):
    assert dotted(path) == text


FILE = {
    "title": "t {release}",
    "source": "at {release}",
    "root": [{"of": ["a"], "value": "A"}, {"of": ["b"], "value": "B"}],
    "sections": {"model": "Model", "old": {"until": "0.9", "value": "Old"}},
    "job": {
        "seq_len": [{"until": "0.9", "value": "len"}, {"since": "0.10", "value": "seq"}]
    },
    "variants": {},
    "classes": {
        "A": {"x": {"since": "0.10", "type": "int", "default": 1}},
        "B": {"y": {"type": "int"}},
        "Model": {"name": {"type": "str"}},
        "Old": {"z": {"until": "0.9", "type": "int"}},
    },
}


@each(
    ("version", "expected"),
    [
        (
            "0.9.a",
            {
                "title": "t 0.9",
                "source": "at 0.9",
                "root": "A",
                "sections": {"model": "Model", "old": "Old"},
                "job": {"seq_len": "len"},
                "variants": {},
                "classes": {
                    "Model": FILE["classes"]["Model"],
                    "Old": {"z": {"type": "int"}},
                },
            },
        ),
        (
            "0.10.b",
            {
                "title": "t 0.10",
                "source": "at 0.10",
                "root": "B",
                "sections": {"model": "Model"},
                "job": {"seq_len": "seq"},
                "variants": {},
                "classes": {
                    "B": {"y": {"type": "int"}},
                    "Model": FILE["classes"]["Model"],
                },
            },
        ),
    ],
)
def test_a_version_has_the_entries_of_its_release_and_command(version, expected):
    assert schema.of_release(FILE, version) == expected
