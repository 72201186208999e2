"""Traces that are damaged, hostile or no traces at all."""

import gzip
import json
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fp8tune.verify import events, timeline, trace, unpack
from fp8tune.verify.trace import read
from tests.each import each
from tests.support.traces import events as made_events
from tests.support.traces import mm, node, step, write

NVJET8 = "nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT"
GEMM = {
    "ph": "X",
    "cat": "kernel",
    "name": NVJET8,
    "pid": 0,
    "tid": 7,
    "ts": 1,
    "dur": 2,
}
GOOD = json.dumps(GEMM)


def said(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = read(path)
    return found.fp8.calls, found.cut


EARLY = "the file ends before its events do"
TEXTS = {
    "empty": ("", (0, "the file ends before its JSON does")),
    "a log": ("step 1 loss 2\n" * 9, (0, "no JSON of a trace")),
    "binary": (b"\x7fELF\0\0\1" * 99, (0, "binary data")),
    "no UTF-8": (f'[{GOOD}, {{"name": "'.encode() + b'\xff\xfe"}]', (1, "")),
    "array without its end": (f"[{GOOD},\n{GOOD},\n", (2, "")),
    "half an event": (f"[{GOOD}, {GOOD[:50]}", (1, EARLY)),
    "header only": ('{"schemaVersion": 1', (0, "the file ends before its JSON does")),
    "no colon": ('{"a" 1, "b": 2}', (0, "not valid JSON at character 4")),
    "a key that is none": ("{[1]: 2}", (0, "not valid JSON at character 4")),
    "events that are none": (f'[1, "a", null, [[]], {{}}, {GOOD}]', (1, "")),
    "header behind": (f'{{"traceEvents": [{GOOD}], "a": {{"b": [1, 2]}}}}', (1, "")),
    "NaN": (f"[{GOOD}, {GOOD.replace('1,', 'NaN,')}]", (1, "")),
    "infinite": (f"[{GOOD}, {GOOD.replace(': 2', ': -Infinity')}]", (1, "")),
    "nested deeply": (f"[{GOOD}, {'[' * 100_000}", (1, "nested too deeply")),
    "nested deeply in objects": (
        f"[{GOOD}, " + '{"a":' * 100_000,
        (1, "nested too deeply"),
    ),
    "control characters": (f'[{GOOD}, {{"name": "\1\t\x1b"}}]', (1, "")),
}


@each(("label", "text", "expected"), [(k, *v) for k, v in TEXTS.items()])
def test_text_that_is_damaged(label, text, expected, tmp_path):
    assert said(tmp_path / "trace.json", text) == expected


@pytest.mark.parametrize("value", [None, "1", [], {}, True, 1e300, "\ud800", -5])
def test_values_of_unexpected_types(value, tmp_path):
    """Every field of every kind of event, one after the other."""
    items = step(
        1, mm(8, 8, 8, NVJET8, "aten::_scaled_mm"), node("A", mm(8, 8, 8, "a"))
    )
    for event in range(len(made_events(items))):
        for key in ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args"):
            changed = made_events(items)
            changed[event][key] = value
            (tmp_path / "trace.json").write_text(json.dumps(changed))
            assert read(tmp_path / "trace.json").events == len(changed)
    for key in ("Input Dims", "Input type", "correlation"):
        for inside in (value, [value, value], [[value, 8], [8, 8]]):
            changed = made_events(items)
            for event in changed:
                event["args"][key] = inside
            (tmp_path / "trace.json").write_text(json.dumps(changed))
            assert not read(tmp_path / "trace.json").cut
    for key in ("distributedInfo", "deviceProperties"):
        for inside in (value, [value], {"rank": value}, [{"name": value}]):
            document = {key: inside, "traceEvents": []}
            (tmp_path / "trace.json").write_text(json.dumps(document))
            assert not read(tmp_path / "trace.json").cut


@settings(max_examples=300)
@given(data=st.data())
def test_changed_bytes_never_crash(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("changed")
    write(
        folder / "trace.json", step(1, mm(8, 8, 8, NVJET8), node("B", mm(8, 8, 8, "a")))
    )
    text = bytearray((folder / "trace.json").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    (folder / "trace.json").write_bytes(text)
    (folder / "packed").write_bytes(
        gzip.compress(text)[: data.draw(st.integers(1, 999))]
    )
    read(folder / "trace.json")
    read(folder / "packed")


def test_what_is_too_long_or_too_much(tmp_path, monkeypatch):
    path = tmp_path / "trace.json"
    many = f"[{','.join([GOOD] * 20)}]"
    long = f'[{GOOD}, {{"name": "{"x" * 3 * events.LONGEST}'
    position = len(f"[{GOOD}, ")
    assert said(path, long) == (1, f"not valid JSON at character {position}")
    blank = f"[{GOOD}{' ' * 5_000_000}, {GOOD}]"
    assert said(path, blank) == (2, "")
    monkeypatch.setattr(trace, "MOST_ROWS", 10)
    assert said(path, many) == (10, "more than 10 events that matter")
    monkeypatch.setattr(trace, "MOST_ROWS", 99)
    monkeypatch.setattr(trace, "MOST_NAMES", 5)
    names = [GEMM | {"name": f"nvjet_qqtst_{number}"} for number in range(9)]
    assert said(path, json.dumps(names)) == (5, "more than 5 names")
    monkeypatch.setattr(trace, "MOST_THREADS", 5)
    call = GEMM | {"cat": "cuda_runtime", "name": "cudaLaunchKernel"}
    threads = [call | {"tid": number} for number in range(9)]
    assert said(path, json.dumps([GEMM, *threads])) == (1, "more than 5 threads")
    monkeypatch.setattr(trace, "MOST_SHAPES", 3)
    shapes = made_events(*(mm(8, 8, n, NVJET8, "aten::_scaled_mm") for n in range(9)))
    path.write_text(json.dumps(shapes))
    ran = read(path).ran
    assert (len(ran), sum(each.shape is None for each in ran)) == (3, 1)


def test_deep_nesting_is_told_apart_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(timeline, "DEEPEST", 10)
    monkeypatch.setattr(timeline, "MOST_GEMMS", 5)
    scaled = [mm(8, 8, n, NVJET8, "aten::_scaled_mm") for n in range(9)]
    deep = node("A", *scaled)
    for _ in range(20):
        deep = node("A", deep)
    write(tmp_path / "trace.json", deep, *scaled)
    found = read(tmp_path / "trace.json")
    assert (found.fp8.calls, found.backward) == (18, True)
    assert sorted(each.shape is None for each in found.ran) == [False] * 5 + [True] * 2


def test_archives(tmp_path, monkeypatch):
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("b.json", "a.json", "notes.bin"):
            archive.writestr(name, f"[{GOOD}]")
    assert said(tmp_path / "copy", path.read_bytes()) == (
        1,
        "2 files in the archive, only the first was read",
    )
    half = path.read_bytes()[:100]
    assert said(path, half) == (0, "not a readable zip archive: File is not a zip file")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.bin", "")
    count, cut = said(path, path.read_bytes())
    assert (count, cut.partition(":")[0]) == (0, "not a readable zip archive")
    damaged = bytearray(gzip.compress(f"[{GOOD},".encode()))
    damaged[-3] ^= 1
    assert said(path, bytes(damaged))[1] == "the packed data end early or are damaged"
    assert said(path, b"\x1f\x8b") == (0, "the packed data end early or are damaged")


def test_a_bomb_is_read_up_to_a_limit(tmp_path):
    bomb = gzip.compress(f"[{GOOD}, ".encode() + b" " * (64 << 20), 9)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bomb))
    found = read(tmp_path / "bomb.gz", limit=8 << 20)
    assert (found.fp8.calls, found.cut) == (1, "only the first 8 MiB were read")
    assert unpack.LIMIT == 8 << 30


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.json")
