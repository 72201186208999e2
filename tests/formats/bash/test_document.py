"""Scripts as documents: the flags of the run, where they stand, and edits of them."""

import pytest

from fp8tune.formats import parse
from fp8tune.formats.bash.document import Document
from fp8tune.formats.document import Unreadable
from fp8tune.formats.edits import CannotEdit, apply
from tests.each import each

SCRIPT = """\
#!/bin/bash
# --num-layers 99 is not this run's
TP=2
DTYPE="fp8"
MODEL=(
    --num-layers 32  # layers
    --tensor-model-parallel-size $TP
    --swiglu
)
FP8=()
if [[ "$DTYPE" == "fp8" ]]; then
    FP8+=("--fp8-format hybrid" "--fp8-margin 0")
fi
torchrun --nproc_per_node 8 pretrain_gpt.py \\
    ${MODEL[@]} ${FP8[@]} --lr=3e-4 --data-path 0.5 a 0.5 b --save "$OUT"
"""


def flags(script):
    values = parse(script.encode(), "run.sh").values
    return {key: value for key, value in values.items() if key not in ("launcher",)}


def test_flags_of_the_run():
    document = parse(SCRIPT.encode(), "run.sh")
    assert document.values == {
        "program": "pretrain_gpt.py",
        "launcher": ["torchrun", "--nproc_per_node", "8"],
        "processes": 8,
        "num_layers": 32,
        "tensor_model_parallel_size": 2,
        "swiglu": True,
        "fp8_format": "hybrid",
        "fp8_margin": 0,
        "lr": 3e-4,
        "data_path": [0.5, "a", 0.5, "b"],
        "save": None,
        "unknown": {"save": "$OUT is not set in the script"},
        "unresolved": [],
        "maybe": [],
    }
    spans = {
        key: document.text[start:end]
        for (key,), (start, end) in document.spans.values.items()
    }
    assert spans == {
        "program": "pretrain_gpt.py",
        "num_layers": "32",
        "fp8_format": "hybrid",
        "fp8_margin": "0",
        "lr": "3e-4",
    }
    assert document.lines.position(document.span(("swiglu",), "value")[0]) == (8, 7)


@each(
    ("before", "expected"),
    [
        ("export CUDA_DEVICE_MAX_CONNECTIONS=1\n", "1"),
        ("CUDA_DEVICE_MAX_CONNECTIONS=1\nexport CUDA_DEVICE_MAX_CONNECTIONS\n", "1"),
        ("CUDA_DEVICE_MAX_CONNECTIONS=1\n", None),
    ],
)
def test_a_variable_of_the_environment_is_exported(before, expected):
    found = flags(f"{before}torchrun pretrain_gpt.py --bf16")
    assert found.get("environment", {}).get("CUDA_DEVICE_MAX_CONNECTIONS") == expected


@each(
    ("script", "found"),
    [
        ("torchrun train.py --a 1 $MORE", {"a": 1, "unresolved": ["$MORE is not set"]}),
        ("python t.py --a 1 ${Y[@]}", {"a": 1, "unresolved": []}),
        ("torchrun train.py --bf16 -5 --a -x", {"bf16": -5, "a": True}),
        ("bash -c 'python train.py --a b'", {"a": "b"}),
        (
            "A=1; A+=4 bash -c 'python train.py --x 1 $A'",
            {"x": 1, "unresolved": ["$A may be changed in line 1"]},
        ),
        ("eval \"python t.py --x '1 2'\"", {"x": "1 2"}),
        ("bash -c 'cd x; exec \"$@\"' bash python t.py --x '1 2'", {"x": "1 2"}),
        ("eval python t.py --x 1 $Y --z 2", {"x": 1, "unresolved": ["$Y is not set"]}),
        ("if cmd; then A='--x 1'; fi\npython t.py $A --y", {"y": True}),
        ("python t.py --fp8_format hybrid --a", {"--fp8_format": "hybrid", "a": True}),
    ],
)
def test_words_of_a_command(script, found):
    values = flags(script)
    told = {key: values[key] for key in found if key != "unresolved"}
    assert told == {key: v for key, v in found.items() if key != "unresolved"}
    unresolved = values["unresolved"]
    starts = found.get("unresolved", unresolved)
    assert all(map(str.startswith, unresolved, starts)), unresolved
    assert len(unresolved) == len(starts)


def test_one_run_by_two_launchers():
    run = "python t.py --x 1\n"
    text = f"if test $I; then torchrun --nproc_per_node 8 t.py --x 1; else {run} fi\n"
    values = parse(text.encode(), "run.sh").values
    assert (values["launcher"], values.get("processes"), values["x"]) == ([], None, 1)
    twice = parse((run + run).encode(), "run.sh").values
    assert twice["launcher"] == ["python"]


def test_no_run_and_several_runs():
    nothing = parse(b"echo hello\n", "run.sh").values
    assert nothing == {"obstacle": "it starts no Python program with flags or a config"}
    two = "python a.py --x 1 --y 2\npython b.py --x 1 --y 3\n"
    with pytest.raises(Unreadable, match="several runs"):
        parse(two.encode(), "run.sh")
    with pytest.raises(Unreadable, match="line 1: a quote is not closed"):
        parse(b'python a.py --x "1\n', "run.sh")
    with pytest.raises(Unreadable, match="64 KiB"):
        parse(b"#" * (1 << 17), "run.sh")


@each(
    ("values", "line"),
    [
        ({"fp8_format": "e4m3"}, '    FP8+=("--fp8-format e4m3" "--fp8-margin 0")'),
        ({"bf16": True}, '    FP8+=("--fp8-format hybrid" "--fp8-margin 0 --bf16")'),
        ({"tensor_model_parallel_size": 4}, "TP=4"),
    ],
)
def test_edits(values, line):
    document = Document(SCRIPT)
    edits = list(document.set_values({(key,): v for key, v in values.items()}))
    text = apply(document.text, edits)
    if "bf16" not in values:
        assert line in text.split("\n")
    after = document.read(text).values
    expected = document.values | values
    assert {k: v for k, v in expected.items() if v is not False} == after


@each("values", [{"save": "out"}, {"data_path": ["c"]}])
def test_what_is_not_edited(values):
    document = Document(SCRIPT)
    with pytest.raises(CannotEdit):
        list(document.set_values({(key,): v for key, v in values.items()}))


@each(
    ("before", "values", "after"),
    [
        ("N=2\n{} --x ${{N}} --y 1\n", {"x": 4}, "N=4\n{} --x ${{N}} --y 1\n"),
        ("N=${{N:-2}}\n{} --x $N\n", {"x": 4}, "N=${{N:-4}}\n{} --x $N\n"),
        ("N=2\n{} --x $N --y $((N * 4))\n", {"x": 4}, "N=2\n{} --x 4 --y $((N * 4))\n"),
        ("{} --y 1 \\\n  --x\necho done\n", {"x": False}, "{} --y 1\necho done\n"),
        (
            "A=(\n  '--x 1'\n  --y 1\n)\n{} ${{A[@]}}\n",
            {"x": None},
            "A=(\n  --y 1\n)\n{} ${{A[@]}}\n",
        ),
        ("{} --x $N --y 1\n: --z 2\n", {"z": 3}, "{} --x $N --y 1 --z 3\n: --z 2\n"),
    ],
)
def test_only_the_value_of_one_flag_changes(before, values, after):
    document = Document(before.format("python a.py"))
    edits = document.set_values({(key,): v for key, v in values.items()})
    assert apply(document.text, edits) == after.format("python a.py")


@each(
    ("before", "after"),
    [
        ("X=/c\n{} --x $X --y 1\n", "X=/c\n{} --y 1\n"),
        ('{} --y 1 --x "$1"\n', "{} --y 1 \n"),
        ('{} --x "$A"/b$(date +%s) --y 1\n', "{} --y 1\n"),
        ("{} --y 1 \\\n  --x=${{A:-/a}}\n", "{} --y 1\n"),
        ('X="--y 1 --x $1"\n{} $X\n', 'X="--y 1 "\n{} $X\n'),
        ("A=('--y 1' \"--x $1\")\n{} ${{A[@]}}\n", "A=('--y 1' )\n{} ${{A[@]}}\n"),
        (
            "A=(--y 1)\n[ -f c ] && A+=(--x c)\n{} ${{A[@]}}\n",
            "A=(--y 1)\n[ -f c ] && A+=()\n{} ${{A[@]}}\n",
        ),
        (
            "if false; then\n  A=--x\nfi\n{} --y 1 --x $1\n",
            "if false; then\n  A=--x\nfi\n{} --y 1 \n",
        ),
        ("{} --y 1 --x $1 $MORE\n", "{} --y 1 $MORE\n"),
        ("X='1 --z 2'\n{} --x $X --y 1\n", ""),
        ('{} --x "a"$(b "$(c)") --y 1\n', ""),
        ("{} --x $1 --y 1 --x $2\n", ""),
    ],
)
def test_a_flag_is_removed_with_its_word_whatever_stands_in_it(before, after):
    document = Document(before.format("python a.py"))
    try:
        removed = apply(document.text, [document.remove_key(("x",))])
    except CannotEdit:
        removed = ""
    assert removed == after.format("python a.py")


def test_a_flag_twice_with_another_value():
    document = Document("python a.py --x 1 --y 2 \\\n  --x 3 --y 2\n")
    assert document.values["x"] == 3
    [again] = document.repeated
    assert (again.path, document.text[slice(*again.span)]) == (("x",), "x")
    assert again.first < again.span


@each(
    ("setting", "word", "maybe", "unresolved"),
    [
        ("M+=(--x y --z=1)", '"${M[@]}"', ["x", "z"], 0),
        ("M+=('--x y')", "${M[@]}", ["x"], 0),
        ("M+=($UNSET)", '"${M[@]}"', [], 1),
        ("M+=(y)", '"${M[@]}"', [], 1),  # a second value of the last flag
        ('T="$T --x"', "$T", ["x"], 0),
        ('U="--x y"', "$U", [], 1),  # else U may come from outside
    ],
)
def test_flags_set_on_a_condition(setting, word, maybe, unresolved):
    """Whether they are there is unknown, and all other flags are known."""
    for branch in (f'if [ -n "$KEY" ]; then {setting}; fi', f"test -f x && {setting}"):
        text = f"M=(--a 1); T=\n{branch}\ntorchrun t.py --b 2 3 {word} --c\n"
        values = flags(text)
        assert values["maybe"] == maybe
        assert len(values["unresolved"]) == unresolved
        assert values["c"] is True
        assert values.get("a") == (1 if "M" in word else None)


def test_flags_that_a_loop_adds():
    text = """M=(--a 1)
for i in 1 2; do M+=(--b "$i"); done
torchrun t.py "${M[@]}" --c
"""
    values = flags(text)
    assert (values["a"], values["c"], values["maybe"]) == (1, True, ["b"])


def test_a_function_that_eval_calls_is_one_run():
    text = """a() { torchrun t.py --n "$1" --m 2; }
b() { torchrun t.py --n 3 --k 4; }
eval a 1
"""
    values = flags(text)
    assert (values["n"], values["m"], "k" in values) == (1, 2, False)


def test_one_of_all_branches_runs():
    text = """if [ -f x ]; then A=(--n 1); else A=(--n 1 --m 2); fi
case $(size) in
  7b) B="--l 1";;
  *) B="--l 1 --k 2";;
esac
torchrun t.py "${A[@]}" $B
"""
    values = flags(text)
    assert (values["n"], values["l"], values["maybe"]) == (1, 1, ["m", "k"])


def test_a_text_that_grows_on_several_conditions():
    text = """A="--a 1"
if [ -f x ]; then A="$A --b"; fi
case "$KIND" in
  x) A="$A --c 1";;
  y) A="$A --d 2";;
esac
test -f y && A="$A --e"
torchrun t.py $A --f
"""
    values = flags(text)
    assert sorted(values["maybe"]) == ["b", "c", "d", "e"]
    assert (values["a"], values["f"], values["unresolved"]) == (1, True, [])
