"""The JSON Schema of each trainer says what its loader says of the same config."""

import json
import tomllib
from collections import defaultdict

import pytest
from jsonschema import Draft7Validator

from fp8tune.trainers.about import trainers
from fp8tune.trainers.json_schema import json_schema
from fp8tune.trainers.trainer import trainer
from tests.each import each
from tests.support import verdicts

IDS = [
    name
    for about in trainers().values()
    if about.formats != ["bash"]  # no editor checks a script against a schema
    for name in about.ids
]
SCHEMAS = {name: json_schema(trainer(name)) for name in IDS}
SCALARS = (0, 1, -1, 8, 10**6, 0.0, 2.0, 2.5, -0.5, True, False)
TEXTS = ("8", "-3", "1e-3", ".5", "x", "true", "False", "off", "none", "inf", "")
DECLARED = {"type", "enum", "multipleOf", "maxItems"}
"""What the schema says of declared types, where a loader takes anything."""


def errors(name, raw):
    return list(Draft7Validator(SCHEMAS[name]).iter_errors(raw))


def nested(name, value):
    for part in reversed(name.split(".")):
        value = {part: value}
    return value


def table_of(node):
    """A key's schema without the other values that it may have, such as "None"."""
    return node["anyOf"][0] if "anyOf" in node else node


def beside(node):
    return node["anyOf"][-1].get("enum", []) if "anyOf" in node else []


def refused(name, key, value):
    """Whether the loader finds fault with a value, and whether the schema does.

    Or with a table above it, whose kind may be missing. What depends on several keys is
    no fault of one.
    """
    path = tuple(key.split("."))
    raw = nested(key, value)
    faults = [
        fault
        for fault in trainer(name).load(raw).faults
        if fault.path
        and fault.path == path[: len(fault.path)]
        and fault.kind != "refused-settings"
    ]
    return bool(faults), bool(errors(name, raw))


@each("name", IDS)
def test_it_is_a_schema(name):
    schema = SCHEMAS[name]
    Draft7Validator.check_schema(schema)
    json.dumps(schema, allow_nan=False)
    known = trainer(name).schema
    assert {*schema["properties"]} == {*known.sections, *known.top_keys}
    assert errors(name, {}) == []


@each("name", IDS)
def test_each_key_has_its_words_and_its_default(name):
    docs = defaultdict(set)
    for key, spec in trainer(name).schema.dotted_keys():
        docs[key].add(spec.doc)  # variants may have their own
    for key, spec in trainer(name).schema.dotted_keys():
        node = SCHEMAS[name]
        for part in key.split("."):
            node = table_of(node)["properties"][part]
        if "properties" not in table_of(node):
            assert node.get("description", "") in docs[key]
            assert node.get("default", spec.effective_default) == spec.effective_default
        if node.get("default") is not None:
            loader, schema = refused(name, key, node["default"])
            assert loader or not schema  # another variant has the key
        if spec.allowed and not spec.only_if:
            values = [*table_of(node).get("enum", []), *beside(node)]
            assert [value for value in values if value != "None"] == spec.allowed


@pytest.mark.parametrize("name", IDS)
def test_numbers_and_switches_are_taken_where_the_loader_takes_them(name):
    keys = {
        key: spec
        for key, spec in trainer(name).schema.dotted_keys()
        if spec.base in ("int", "float", "bool") and not spec.only_if
    }
    assert len(keys) > 50 or not keys  # a loader may look at no type
    stricter, laxer = set(), set()
    for key, spec in keys.items():
        alone = not refused(name, key, spec.default)[0]  # without a key beside it
        for value in (*SCALARS, *TEXTS):
            loader, schema = refused(name, key, value)
            if loader != schema and (schema or alone):
                (stricter if schema else laxer).add((spec.base, value))
    fractions = {("int", 2.5), ("int", -0.5), ("bool", 2.5), ("bool", -0.5)}
    switches = {(kind, one) for kind in ("int", "float") for one in (True, False)}
    assert stricter <= fractions | switches  # where a loader takes any number or object
    assert all(isinstance(value, str) for _, value in laxer)  # text has no range


@each(
    ("name", "raw", "wrong"),
    [
        ("kempnerforge", {"train": {"seq_len": "4096"}}, []),
        ("kempnerforge", {"data": {"datasets": [{"weight": 0}]}}, ["exclusiveMinimum"]),
        (
            "kempnerforge",
            {"data": {"datasets": [{"wight": 1}]}},
            ["additionalProperties"],
        ),
        ("kempnerforge", {"data": {"anneal_weights": {"a": "b"}}}, ["type"]),
        ("kempnerforge", {"model": {"moe_top_k": 0}}, []),
        (
            "kempnerforge",
            {"model": {"moe_top_k": 0, "num_experts": 8}},
            ["exclusiveMinimum"],
        ),
        ("kempnerforge", {"vlm": {"arch": "mot", "moma_gumbel_noise": True}}, [None]),
        ("torchtitan==0.1.0", {"trainin": {}, "training": {"steps_": 1}}, []),
        (
            "torchtitan==0.2.2",
            {"trainin": {}, "training": {"steps_": 1}},
            ["additionalProperties"] * 2,
        ),
        (
            "torchtitan==0.2.2",
            {"job": {"custom_config_module": "mine"}, "mine": {}, "model": {"a": 1}},
            [],
        ),
        (
            "torchtitan==0.2.2",
            {"quantize": {"linear": {"float8": {"recipe_name": "row"}}}},
            ["enum"],
        ),
    ],
)
def test_what_is_wrong(name, raw, wrong):
    found = [error.validator for error in errors(name, raw)]
    assert found == wrong


def cases(file):
    for case in verdicts.cases(verdicts.corpus(file)):
        version = case.get("version", "")
        try:
            raw = tomllib.loads(case["toml"])
        except tomllib.TOMLDecodeError:
            continue
        yield f"{file}=={version}" if version else file, raw, case["toml"]


@pytest.mark.parametrize("file", ["kempnerforge", "torchtitan"])
def test_what_a_loader_takes_has_at_most_an_odd_type(file):
    accepted = [
        (name, raw)
        for name, raw, _ in cases(file)
        if not trainer(name).load(raw).faults
    ]
    found = {
        (error.validator, str(error.instance))
        for name, raw in accepted
        for error in errors(name, raw)
    }
    assert len(accepted) > 100
    odd = {("pattern", "٣")}  # a digit that Python reads
    assert {kind for kind, _ in found - odd} <= DECLARED


@each(
    ("name", "raw", "places"),
    [
        ("kempnerforge", {"infra": {"x": 1}, "train": {"mup_base": 1}}, []),
        ("kempnerforge", {"infr": {}, "train": {"mu_base": 1}}, [[], ["train"]]),
        ("torchtitan==0.2.2", {"infra": {"x": 1}, "train": {}}, [[]]),
        ("prime_rl==0.8.1.dev67.sft", {"infra": 1, "model": {"mup": 1}}, [["model"]]),
    ],
)
def test_keys_of_a_fork_are_no_errors(name, raw, places):
    """``places`` are the tables that have a key which neither trainer nor fork has."""
    fork = trainer(name).tolerating(["infra", "train.mup_*"])
    found = Draft7Validator(json_schema(fork)).iter_errors(raw)
    kind = "additionalProperties"
    assert sorted([*e.path] for e in found if e.validator == kind) == places
