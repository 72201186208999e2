import time

import pytest

from fp8tune.verify import kernels
from fp8tune.verify.kernels import KINDS, find, kind, patterns
from tests.each import each

ALL = [(source, each) for source, group in patterns().items() for each in group]


@each(("source", "pattern"), ALL)
def test_the_examples_of_a_pattern_match_it_first(source, pattern):
    assert {find(source, name) for name in pattern.examples} == {pattern}
    assert pattern not in {find(source, name) for name in pattern.counterexamples}
    assert pattern.examples
    assert pattern.counterexamples
    assert pattern.evidence


def test_names_and_kinds_are_each_there_once():
    names = [(source, pattern.name) for source, pattern in ALL]
    assert len(set(names)) == len(names)
    assert {pattern.kind for _, pattern in ALL} == KINDS.keys()


def test_an_entry_with_an_unknown_kind_or_field_is_refused():
    entry = {"name": "a", "kind": "gemm", "match": "a", "engine": "", "evidence": "b"}
    entry |= {"examples": [], "counterexamples": []}
    with pytest.raises(ValueError, match="no kind 'gem'"):
        kernels._pattern(entry | {"kind": "gem"})
    with pytest.raises(TypeError):
        kernels._pattern(entry | {"mach": "a"})


HOSTILE = {
    "cutlass": "cutlass::device_kernel<" * 2000,
    "grouped": "void cutlass::device_kernel<" + "GroupProblemShape" * 3000,
    "te": "transformer_engine" * 3000,
    "digits": "1" * 60_000,
    "triton": "triton_tem_fused_" + "_mm" * 20_000,
    "words": "a_" * 30_000 + "!",
    "flash": "sm" + "1" * 50_000,
    "lines": "\n\0\x1b[31m" * 9000,
}


@each(("label", "name"), HOSTILE.items())
def test_hostile_names_take_no_time(label, name):
    begin = time.perf_counter()
    for source in patterns():
        find(source, name)
    assert time.perf_counter() - begin < 0.5


def test_names_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(kernels, "MOST_NAMES", 10)
    monkeypatch.setitem(kernels._known, "kernel", {})
    for number in range(100):
        assert kind("kernel", f"nvjet_qqtst_{number}") == "fp8-gemm"
        assert len(kernels._known["kernel"]) <= 10
    long = "nvjet_qqtst_" + "x" * kernels.LONGEST_NAME
    assert kind("kernel", long) == "fp8-gemm"
    assert long not in kernels._known["kernel"]
