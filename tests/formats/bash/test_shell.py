"""Commands of bash scripts; the expected words are what bash itself makes of them."""

import pytest

from fp8tune.formats.bash.shell import Shell
from fp8tune.formats.bash.words import BadScript
from fp8tune.formats.document import HOLE
from tests.each import each


def words(script, *arguments, **variables):
    """The words of each command; an unknown one as its reason in brackets."""
    shell = Shell(arguments, variables)
    return [
        [f"<{word.unknown.reason}>" if word.unknown else word.text for word in c.words]
        for c in shell.commands(script)
    ]


@each(
    ("script", "expected"),
    [
        (
            "A='x y'; run $A \"$A\" '$A' \"\\$A\"",
            [["run", "x", "y", "x y", "$A", "$A"]],
        ),
        (
            'run $1 "$2" $# $9',
            [["run", "c.toml", "--x=1 2", "2", "<is argument 9 of the script>"]],
        ),
        (
            'run "$@"; shift; run $*',
            [["run", "c.toml", "--x=1 2"], ["run", "--x=1", "2"]],
        ),
        ('A="$@"; run ${A}', [["run", "c.toml", "--x=1", "2"]]),
        ('set -- a b; run "$2"', [["run", "<may be changed in line 1>"]]),
        (
            "A=(p 'q r'); A+=(s); run \"${A[@]}\" ${A[*]}",
            [["run", "p", "q r", "s", "p", "q", "r", "s"]],
        ),
        ('run ${A:-${B-z}} ${1:-d} "${C:-}"', [["run", "z", "c.toml", ""]]),
        ("run a > log 2>&1 < in | tee f", [["run", "a"], ["tee", "f"]]),
        ("cat <<EOF\nrun $(x)\nEOF\nrun b", [["cat"], ["run", "b"]]),
        (
            'run $(x ")") `y` $((1 + 2))',
            [["run", *["<is the output of a command>"] * 2, "3"]],
        ),
        (
            "if x; then A=1; run $A; else A=2; fi; run $A",
            [["x"], ["run", "1"], ["run", "<is set on a condition>"]],
        ),
        (
            "case $NONE in a|b) A=1;; *) A=2;; esac; run $A",
            [["run", "<is set on a condition>"]],
        ),
        (
            'R=mxfp8; case "$R" in fp8|mxfp8) A=1;; *) A=2;; esac; run $A',
            [["run", "1"]],
        ),
        ("case a in b) run b;; (a) run a;; *) run c; esac", [["run", "a"]]),
        (
            "case a in a*) A=1;; *) A=2;; esac; run $A",
            [["run", "<is set on a condition>"]],
        ),
        ("f() { run $1; }; A=2; f x", [["run", "x"]]),
        (
            "read A; run $A $NONE",
            [["run", "<may be changed in line 1>", "<is not set in the script>"]],
        ),
        (
            "x || exit 1; run a; exit; run b",
            [["x"], ["exit", "1"], ["run", "a"], ["exit"]],
        ),
        ("f() { run 1; }; g() { run 2; }; srun f; g", [["srun", "f"], ["run", "2"]]),
    ],
)
def test_words_of_commands(script, expected):
    assert words(script, "c.toml", "--x=1 2") == expected


def test_cd_moves_the_commands_behind_it():
    script = "cd sub\nrun\ncd /top || exit\nrun\ncd $X\nrun\npushd y\nrun\n"
    script += "cd /top\nx && cd y\nrun"
    commands = [c for c in Shell([], {}).commands(script) if c.words[0].text == "run"]
    folders = ["sub", "/top", f"/top/{HOLE}", HOLE, HOLE]
    assert [c.folder.text for c in commands] == folders
    assert [c.line for c in commands] == [2, 4, 6, 8, 11]


def test_values_do_not_grow_without_bounds():
    for growth in ("A=$A$A\n" * 60, f"A={'$A' * 9999}\n"):
        script = f"A=xxxxxxxx\n{growth}run $A"
        assert words(script) == [["run", "<is too long>"]]


@each(
    ("script", "reason"),
    [
        ("run 'a", "1: a ' is not closed"),
        ("run $(a", "1: a \\) is missing"),
        ("A=(" * 100, "1: arrays are nested too deeply"),
        ("A='" + "x " * 9999 + "'\n" + "run $A\n" * 999, ".* too long when expanded"),
        ("f() { :" + " $A" * 9999 + "; }\n" + "f\n" * 99, ".* too long when expanded"),
        ("f() if x; then y; fi", r"1: .* not in \{ \}"),
    ],
)
def test_a_script_that_does_not_end(script, reason):
    with pytest.raises(BadScript, match=reason):
        list(Shell([], {}).commands(script))


@each(
    ("script", "word"),
    [
        ("A=1; if [ $A = 1 ]; then B=x; else B=y; fi; run $B", "x"),
        (
            "A=1; if [[ $A == 2 ]]; then B=x; elif [ $A -eq 01 ]; then B=y; fi; run $B",
            "y",
        ),
        ("A=1; if [ $A = 2 ] || [ $A = 1 ]; then B=x; fi; run $B", "x"),
        ("A=1; if ! [ $A = 2 ]; then B=x; fi; run $B", "x"),
        ("if [ $1 = a ]; then B=x; else B=y; fi; run $B", "<is set on a condition>"),
        ("if [ -f x ]; then B=x; fi; run $B", "<is set on a condition>"),
        ("if [ $Q = 1 ] || [ a = a ]; then B=x; fi; run $B", "x"),
    ],
)
def test_tests_of_known_texts_are_decided(script, word):
    shell = Shell([], {})
    [command] = [c for c in shell.commands(script) if c.words[0].text == "run"]
    [found] = command.words[1:]
    assert (f"<{found.unknown.reason}>" if found.unknown else found.text) == word


@each(
    ("script", "word"),
    [
        ("A=1; [ $A = 1 ] && B=x; run $B", "x"),
        ("A=1; [ $A = 2 ] && B=x || B=y; run $B", "y"),
        ("B=z; [ a = b ] && { B=x; B=y; }; run $B", "z"),
        (
            "B=z; if ((B = 2)); then A=1; else A=2; fi; run $B",
            "may be changed in line 1",
        ),
        ("x && if [ a = a ]; then B=y; fi; run $B", "<is set on a condition>"),
        ("A=$(x) && B=x; run $B", "<is set on a condition>"),
        ("x && [ a = b ] && B=x; B=$B; run $B", "<is not set in the script>"),
        ("A=0; if ((A)); then B=x; else B=y; fi; run $B", "<is set on a condition>"),
        ("B=z; [ a = b ] &&\n  B=x; run $B", "z"),
        ("x ||\n  exit 1\nB=x; run $B", "x"),
        (
            "A=1; while x; do [ $A = 2 ] && B=x; A=2; done; run $B",
            "<is set on a condition>",
        ),
    ],
)
def test_lists_of_known_tests_are_decided(script, word):
    [command] = [c for c in words(script) if c[0] == "run"]
    assert command[1:] in ([word], [f"<{word}>"])


@each(
    ("expression", "expected"),
    [
        ("2 * 8", "16"),
        ('"$N" * ${G:-4} - -1', "17"),
        ("(1 + 2) * 3 % 5", "4"),
        ("-7 % 2", "-1"),
        ("$S * 2", "5"),  # the text is put in first, then evaluated
        ("$((N + 1)) * 2", "6"),
        ("NONE * 8", "<is not set in the script>"),
        ("$(nodes) * 8", "<is the output of a command>"),
        *((text, "<is arithmetic that is not evaluated>") for text in (
            "1 / 0", "S * 2", "2 ** 3", "010", "0x10", "1 1", "", "N++", "N = 3", "1.5",
            "(" * 20 + "1" + ")" * 20, "1" + "+1" * 600, "9999999999999999", "1,2",
            "9007199254740991 * 9007199254740991", "\u0661",
        )),
    ],
)  # fmt: skip
def test_arithmetic(expression, expected):
    assert words(f"run $(({expression}))", N="2", G="8", S="1+2") == [["run", expected]]


def last(script):
    """What the last command runs with, an unknown word as its reason."""
    return words(script, HOME="/h")[-1][1:]


@each(
    "change",
    [
        "source more.sh",
        "eval $(x)",
        "export $(grep -v '#' .env | xargs)",
        "declare -n C=A; C=3",
        "let A=3",
        "(( A = 3 ))",
        "run $((A = 3))",
        "mapfile -t A",
        "unset 'A[0]'",
        "A[0]=3",
        "A=3 | x",
        "x | read A",
        "{ A=3; } | tee log",
        "f() { A=3; }; f",
        "f() { A=3; }; f | tee log",
        "function f { g; }; g() { export A=3; }; f",
        "f() { if x; then return; fi; A=3; }; f",
        "if x; then f() { A=3; }; else f() { x; }; fi; f",
        "f() { x; }; A=3 f",
    ],
)
def test_what_a_line_may_change_is_unknown(change):
    reason = "<may be changed in line 2>"
    assert last(f"A=1 B=8 \n{change}\nB=2\nrun $A $B") == [reason, "2"]


@each(
    "change",
    [
        "test -f x && . ./more.sh",
        "if test -f x; then unset A; fi",
        "f() { A=3; }; x && f",
        "(A=3)",
    ],
)
def test_what_may_run_leaves_a_condition(change):
    assert last(f"A=1\n{change}\nrun $A") == ["<is set on a condition>"]


@each(
    "line",
    [
        "source .venv/bin/activate",
        'eval "$(conda shell.bash hook)"',
        'source "$(conda info --base)/etc/profile.d/conda.sh"',
        "if (( A > 0 )); then x; fi",
        "printf '%s' A",
    ],
)
def test_what_changes_no_variable_of_the_script(line):
    assert last(f"A=1\n{line}\nrun $A $HOME") == ["1", "/h"]


@each(
    ("script", "expected"),
    [
        ("A=1; f() { run $A $1; A=2; run $A; }; f x", "1 x 2"),
        ("f() { run $A; }; A=1; f; A=2; f", "1 2"),
        ("f() { if [ $1 = a ]; then run 1; else run 2; fi; }; f b", "2"),
        ("A=1; f() { local A; run $A; }; f", "<may be changed in line 1>"),
        ("f() { run $A; }; A=1; A=4 f", "<may be changed in line 1>"),
        ("A=1; if [[ ( $A = 1 || x ) ]]; then y; fi; run $A", "1"),
    ],
)
def test_functions_run_where_they_are_called(script, expected):
    runs = [c for c in words(script) if c[0] == "run"]
    assert " ".join(word for c in runs for word in c[1:]) == expected


def test_blocks_in_blocks_are_bounded():
    inside, outside = "if true; then\n" * 99, "fi\n" * 99
    assert words(f"{inside}run\n{outside}")[-1] == ["run"]
    with pytest.raises(BadScript, match="nests too many blocks"):
        words(f"{inside}{inside}run\n{outside}{outside}")


def test_calls_are_bounded():
    script = "".join(f"f{n}() {{ {f'f{n + 1};' * 9} }}\n" for n in range(7)) + "f0"
    with pytest.raises(BadScript, match="too many commands"):
        words(script + "\nf7() { x; }")


def test_an_alternative_is_set_on_a_condition():
    script = 'A=1; run ${A:+--x 2} "${A[@]+"${A[@]}"}" y'
    assert last(script) == ["<is set on a condition>", "<is set on a condition>", "y"]
