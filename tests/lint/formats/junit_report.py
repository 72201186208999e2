"""A JUnit report, held to the schema of Jenkins' xUnit plugin."""

from pathlib import Path
from xml.etree import ElementTree as ET

import xmlschema

SCHEMA = xmlschema.XMLSchema(Path(__file__).parents[2] / "data/schemas/junit-10.xsd")
KINDS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def checked(text):
    """The root of a report that keeps to the schema and counts right."""
    root = ET.fromstring(text.encode())
    SCHEMA.validate(root)
    assert text.isascii()
    names = [(c.get("classname"), c.get("name")) for c in root.iter("testcase")]
    assert len(set(names)) == len(names)
    for suite in root:
        assert int(suite.get("tests")) == len(suite)
        for count, tag in KINDS.items():
            assert int(suite.get(count)) == len(list(suite.iter(tag)))
    for count in ("tests", "failures", "errors"):
        assert int(root.get(count)) == sum(int(suite.get(count)) for suite in root)
    return root
