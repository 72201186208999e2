"""Scalars as each loader reads them."""

import math

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fp8tune.formats.document import InvalidText, Unreadable
from fp8tune.formats.yaml.document import parse
from fp8tune.formats.yaml.literal import literal
from tests.each import each


def read(text, loader):
    document = parse(f"k: {text}\n".encode())
    document.read_as(loader)
    return document.values["k"]


# Read by PyYAML 6.0.3 and OmegaConf 2.3.0 (2.4.0 agrees), not by hand.
SCALARS = [
    ("5e-5", "5e-5", 5e-5),
    ("1E5", "1E5", 1e5),
    ("1e+3", "1e+3", 1000.0),
    ("5.0e-5", 5e-5, 5e-5),
    ("5.e-5", 5e-5, 5e-5),
    ("1.0e5", "1.0e5", 1e5),
    (".5", 0.5, 0.5),
    (".1e5", ".1e5", ".1e5"),
    ("1_2e3", "1_2e3", 12000.0),
    ("012", 10, 10),
    ("0o17", "0o17", "0o17"),
    ("08", "08", "08"),
    ("0x1F", 31, 31),
    ("0b11", 3, 3),
    ("1_000", 1000, 1000),
    ("12:30", 750, 750),
    ("190:20:30.15", 685230.15, 685230.15),
    ("yes", True, True),
    ("No", False, False),
    ("ON", True, True),
    ("y", "y", "y"),
    ("~", None, None),
    ("", None, None),
    ("null", None, None),
    ("none", "none", "none"),
    (".inf", math.inf, math.inf),
    ("inf", "inf", "inf"),
    ("'5e-5'", "5e-5", "5e-5"),
    ('"false"', "false", "false"),
    ("(false, false)", "(false, false)", "(false, false)"),
    ("!!str 5e-5", "5e-5", "5e-5"),
    ("!!float 5", 5.0, 5.0),
    ("&a 5e-5", "5e-5", 5e-5),
]


@each(("text", "pyyaml", "omegaconf"), SCALARS)
def test_scalars(text, pyyaml, omegaconf):
    assert repr(read(text, "pyyaml")) == repr(pyyaml)
    assert repr(read(text, "omegaconf")) == repr(omegaconf)


def test_dates_are_text_for_omegaconf():
    document = parse(b"k: 2026-11-24\n")
    assert str(document.values["k"]) == "2026-11-24"
    assert not isinstance(document.values["k"], str)
    document.read_as("omegaconf")
    assert document.values == {"k": "2026-11-24"}


def test_a_loader_of_json_changes_nothing():
    document = parse(b"k: 5e-5\n")
    document.read_as("hjson")
    assert document.values == {"k": "5e-5"}


PLAIN = st.text("0123456789+-._eE:xobTZ", min_size=1, max_size=9)


@settings(max_examples=500)
@given(PLAIN)
def test_plain_scalars_are_those_of_safe_load(text):
    source = f"k: {text}\n"
    try:
        expected = yaml.safe_load(source)
    except (yaml.YAMLError, ValueError):
        expected = None
    try:
        found = parse(source.encode()).values
    except (InvalidText, Unreadable):
        found = None
    assert repr(found) == repr(expected)


@settings(max_examples=300)
@given(
    st.one_of(
        PLAIN,
        st.floats(allow_nan=False),
        st.integers(),
        st.text(st.characters(exclude_categories=("C", "Z"))),
    ),
    st.sampled_from(["", "'", '"']),
)
def test_literals_are_read_back_by_every_loader(value, quote):
    for loader in ("pyyaml", "omegaconf"):
        if "${" not in str(value):
            assert repr(read(literal(value, quote), loader)) == repr(value)
