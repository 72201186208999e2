"""JUnit's XML, as Jenkins and GitLab read it.

Schema: https://github.com/jenkinsci/xunit-plugin, ``junit-10.xsd``. A file is a suite
and a finding a failed test of it; a file without findings is one test that passed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.lint.formats.address import from_root
from fp8tune.lint.run import Result

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write."""


def render(result: Result) -> str:
    """Return all files as one document, in ASCII so that any encoding works."""
    root = ET.Element("testsuites", name="fp8tune")
    for report in result.reports:
        if not report.skipped:
            _suite(root, from_root(report.path), _cases(report))
    if result.unread:
        _suite(root, "unreadable", (_line(line, "error") for line in result.unread))
    if result.stale:
        _suite(root, "stale", (_line(line, "failure") for line in result.stale))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in root)))
    ET.indent(root)
    text = ET.tostring(root, encoding="us-ascii", xml_declaration=False).decode()
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(root: ET.Element, name: str, cases: Iterator[ET.Element]) -> None:
    suite = ET.SubElement(root, "testsuite", name=_xml(name))
    suite.extend(cases)
    seen: Counter[str] = Counter()
    for case in suite:  # readers identify tests by name
        case.set("classname", _xml(name))
        given = case.get("name", "")
        seen[given] += 1
        if seen[given] > 1:
            case.set("name", f"{given} ({seen[given]})")
    suite.set("tests", str(len(suite)))
    for count, tag in (
        ("failures", "failure"),
        ("errors", "error"),
        ("skipped", "skipped"),
    ):
        suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))


def _cases(report: Report) -> Iterator[ET.Element]:
    for found in report.diagnostics:
        case = _case(found)
        failure = ET.SubElement(case, "failure", type=found.severity)
        failure.set("message", _xml(found.message))
        failure.text = _xml("\n".join(_text(found)))
        yield case
    for held in report.suppressed:
        case = _case(held.finding)
        ET.SubElement(case, "skipped", message=_xml(held.reason or "ignored"))
        yield case
    if not report.diagnostics and not report.suppressed:
        yield ET.Element("testcase", name="no findings")


def _case(found: Diagnostic) -> ET.Element:
    return ET.Element("testcase", name=_xml(f"{found.rule} {found.key}".rstrip()))


def _text(found: Diagnostic) -> Iterator[str]:
    for label in found.labels:
        line, column = label.region[:2]
        path = from_root(label.path or found.path)
        yield f"{path}:{line}:{column}: {label.text}".rstrip(": ")
    if found.help:
        yield f"help: {found.help}"
    yield f"why: {found.page or f'fp8tune explain {found.rule}'}"


def _line(line: str, tag: str) -> ET.Element:
    case = ET.Element("testcase", name=_xml(line))
    ET.SubElement(case, tag, type="error", message=_xml(line))
    return case


def _xml(text: str) -> str:
    return _FORBIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
