"""Commands of bash scripts; the expected words are what bash itself makes of them."""

import pytest

from fp8tune.formats.bash.shell import HOLE, Shell
from fp8tune.formats.bash.words import BadScript
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
        ("run a 'b c' \"d e\" f\\ g # no", [["run", "a", "b c", "d e", "f g"]]),
        ("run a \\\n  b", [["run", "a", "b"]]),
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
        ('set -- a b; run "$2"', [["run", "b"]]),
        (
            "A=(p 'q r'); A+=(s); run \"${A[@]}\" ${A[*]}",
            [["run", "p", "q r", "s", "p", "q", "r", "s"]],
        ),
        ('run ${A:-${B-z}} ${1:-d} "${C:-}"', [["run", "z", "c.toml", ""]]),
        ("A=1; A+=2; export B=$A; run $B", [["run", "12"]]),
        ("run a > log 2>&1 < in | tee f", [["run", "a"], ["tee", "f"]]),
        ("cat <<EOF\nrun $(x)\nEOF\nrun b", [["cat"], ["run", "b"]]),
        (
            'run $(x ")") `y` $((1 + 2))',
            [["run", *["<is the output of a command>"] * 2, "3"]],
        ),
        ("for i in 1 2; do run $i; done", [["run", "<is set in a loop>"]]),
        (
            "if x; then A=1; run $A; else A=2; fi; run $A",
            [["x"], ["run", "1"], ["run", "<is set on a condition>"]],
        ),
        (
            "case $1 in a|b) A=1;; *) A=2;; esac; run $A",
            [["run", "<is set on a condition>"]],
        ),
        (
            "[ -n x ] && A=1; run $A",
            [["[", "-n", "x", "]"], ["run", "<is set on a condition>"]],
        ),
        (
            "f() { run $1; }; A=2; f x",
            [["f"], ["run", "<is an argument of a function>"], ["f", "x"]],
        ),
        (
            "read A; run $A $NONE",
            [["run", "<is read by the script>", "<is not set in the script>"]],
        ),
        (
            "x || exit 1; run a; exit; run b",
            [["x"], ["exit", "1"], ["run", "a"], ["exit"]],
        ),
        ("exec > >(tee log); run a", [["exec"], ["run", "a"]]),
    ],
)
def test_words_of_commands(script, expected):
    assert words(script, "c.toml", "--x=1 2") == expected


def test_what_is_not_known_leaves_a_hole_in_its_word():
    (command,) = Shell([], {"HOME": "/h"}).commands("run --dir=$HOME/$JOB/x")
    assert command.words[1].text == f"--dir=/h/{HOLE}/x"


def test_cd_moves_the_commands_behind_it():
    script = "cd sub\nrun\ncd /top || exit\nrun\ncd $X\nrun"
    commands = [c for c in Shell([], {}).commands(script) if c.words[0].text == "run"]
    assert [c.folder.text for c in commands] == ["sub", "/top", f"/top/{HOLE}"]
    assert [c.line for c in commands] == [2, 4, 6]


def test_values_do_not_grow_without_bounds():
    script = "A=xxxxxxxx\n" + "A=$A$A\n" * 60 + "run $A"
    assert words(script) == [["run", "<is too long>"]]


@each(
    ("script", "reason"),
    [
        ("run 'a", "1: a ' is not closed"),
        ('run a\nrun "b', "2: a quote is not closed"),
        ("run $(a", "1: a \\) is missing"),
        ("run " + "$(" * 100, "1: brackets are nested too deeply"),
        ("A=(" * 100, "1: arrays are nested too deeply"),
        ("A=" + "x" * 9999 + "\nrun " + "$A" * 9999, "2: .* too long when expanded"),
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
        ('A=; if [ -z "$A" ] && [ -n b ]; then B=x; fi; run $B', "x"),
        ("A=1; if [ $A = 2 ] || [ $A = 1 ]; then B=x; fi; run $B", "x"),
        ("B=z; if [ a = b ]; then B=x; fi; run $B", "z"),
        ("A=1; if ! [ $A = 2 ]; then B=x; fi; run $B", "<is set on a condition>"),
        ("if [ $1 = a ]; then B=x; else B=y; fi; run $B", "<is set on a condition>"),
        ("if [ -f x ]; then B=x; fi; run $B", "<is set on a condition>"),
        ("if [[ a == a* ]]; then B=x; fi; run $B", "<is set on a condition>"),
        ("if [ $Q = 1 ] || [ a = a ]; then B=x; fi; run $B", "x"),
    ],
)
def test_tests_of_known_texts_are_decided(script, word):
    shell = Shell([], {})
    [command] = [c for c in shell.commands(script) if c.words[0].text == "run"]
    [found] = command.words[1:]
    assert (f"<{found.unknown.reason}>" if found.unknown else found.text) == word


def test_a_branch_that_does_not_run_has_no_commands():
    script = "A=1; if [ $A = 2 ]; then run a; else run b; fi"
    assert words(script) == [["[", "1", "=", "2", "]"], ["run", "b"]]


@each(
    ("expression", "expected"),
    [
        ("2 * 8", "16"),
        ("N*G", "16"),
        ('"$N" * ${G:-4} - -1', "17"),
        ("(1 + 2) * 3 % 5", "4"),
        ("-7 / 2", "-3"),
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
