"""The schema file: complete, consistent, and read as it says."""

from pathlib import Path

from fp8tune.fields import FIELDS
from fp8tune.trainers import schema
from fp8tune.trainers.trainer import trainer
from tests.each import each

SCHEMA = trainer("kempnerforge").schema
KEYS = dict(SCHEMA.dotted_keys())
FOLDER = Path(schema.__file__).parent / "kempnerforge"
PYTHON = {"int": int, "float": float, "bool": bool, "str": str}


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
