"""Variables of a program that a script starts."""

from fp8tune.formats.bash.environment import environment
from fp8tune.formats.bash.shell import Shell
from fp8tune.formats.bash.values import Word, hole
from tests.each import each


@each(
    ("launcher", "expected"),
    [
        ("env A=1 B=2 torchrun", {"A": "1", "B": "2", "X": "x"}),
        ("env X=y torchrun", {"X": "y"}),
        ("docker run -e A=1 image python", {"A": "1", "X": "x"}),
        ('ray --runtime-env-json={"env_vars":{"A":1}}', {"A": "1", "X": "x"}),
        ("ray --runtime-env-json {", {"X": "x"}),
    ],
)
def test_words_before_a_program_set_variables(launcher, expected):
    given = {"X": Word("x"), "H": hole("$1", "is an argument")}
    assert environment([*map(Word, launcher.split())], given) == expected


@each(
    ("script", "given"),
    [
        ("export A=1 B=$A\nrun", {"A": "1", "B": "1"}),
        ("A=1; export A; A=2\nrun", {"A": "2"}),
        ("export A=$UNSET\nrun", {}),
        ("(export A=1)\nrun", {}),
        ("while :; do export A=1; done\nrun", {}),
        ("export -p\nrun", {}),
    ],
)
def test_exports_that_are_certain(script, given):
    *_, command = Shell([], {}).commands(script)
    assert {name: word.text for name, word in command.given.items()} == given
