"""Whether the words that fp8tune resolves in generated scripts are those of bash.

Usage: ``python -m benchmarks.bash_scripts --count 8000 --seed 20000``. Scripts set
three variables and an array by assignments, tests, lists, blocks, loops and functions,
and by commands that are not followed, after which a variable must be unknown. Then they
run a command with them. Prints each script where a word differs, how many words
were resolved, and how many scripts differ. Needs bash.
"""

import random
import re
import subprocess

import click

from fp8tune.formats.bash.shell import Shell

LAST = 'run "$A" "$B" "$C" "${L[@]}"\n'
PRELUDE = "run() { printf '%s\\0' \"$@\"; }\n"


class Script:
    """Generates one script."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311

    def text(self) -> str:
        """Return a script of three functions and some commands."""
        lines = ["A=1; B=2; C=0; L=()", *map(self.function, range(3))]
        lines += [self.statement(2) for _ in range(self.random.randrange(2, 7))]
        return "\n".join([*lines, LAST])

    def function(self, number: int) -> str:
        """Return a function that calls only those before it."""
        count = self.random.randrange(1, 4)
        body = "; ".join(self.statement(1, inside=True) for _ in range(count))
        body = re.sub(
            r"\bf(\d) ", lambda f: f[0] if int(f[1]) < number else "true ", body
        )
        return self.random.choice(
            (f"f{number}() {{ {body}; }}", f"function f{number} {{ {body}; }}")
        )

    def test(self) -> str:
        """Return a command that is tested."""
        name, number = self.random.choice("ABC"), self.random.randrange(3)
        return self.random.choice((
            f'[ "${name}" = {number} ]', f"[[ ${name} == {number} ]]", f"(( {name} ))",
            f'[ -n "${name}" ]', f'[ -z "${name}" ]', "test -f /nope", "test -d /",
            "true", "false", f'! [ "${name}" = {number} ]', f"(( {name} > 1 ))",
            f'[ "$1" = {number} ]', f"(( {name} = {number} ))", f"f{number} 2",
        ))  # fmt: skip

    def simple(self) -> str:
        """Return a command that sets something."""
        name, other = self.random.choice("ABC"), self.random.choice("ABC")
        number = self.random.randrange(3)
        return self.random.choice((
            f"{name}={number}", f"{name}=${other}", f"{name}=${{{other}:-{number}}}",
            f"{name}=${{{other}:+{number}}}", f"let {name}={number}",
            f"(({name}+={number}))", f"printf -v {name} %s {number}",
            f'eval "{name}={number}"', f'declare "{name}={number}"',
            f"export {name}={number}", f'L+=("{number}")', f"L=({number} ${other})",
            f"unset {name}", f"f{number} {number}", f'f{number} "${name}"',
            f"{name}=$((${{{other}:-0}}+{number}))", f"read {name} <<< {number}",
            f"{name}=$[{number}+1]", "shift", f"set -- {number} {number}",
            f"{name}=$1", f"{name}=$#", f"{name}={number} f{number} {number}",
            f"{name}=$1 {other}=${name} f{number} {number}",
        ))  # fmt: skip

    def leaving(self) -> str:
        """Return a command that only a function has."""
        return self.random.choice((
            "return", f"{self.test()} && return", f"if {self.test()}; then return; fi",
            f"local {self.random.choice('ABC')}={self.random.randrange(3)}",
        ))  # fmt: skip

    def statement(self, depth: int, *, inside: bool = False) -> str:
        """Return a command, list or block."""
        kind = self.random.randrange(10)
        if inside and self.random.random() < 0.1:
            return self.leaving()
        if kind < 5 or not depth:
            return self.simple()
        test, one, two = (
            self.test(),
            *(self.statement(depth - 1, inside=inside) for _ in range(2)),
        )
        more = self.random.choice(("", f" && {self.test()}", f" || {self.test()}"))
        return {
            5: f"{test} {self.random.choice(('&&', '||'))} {self.simple()}",
            6: f"{test} && {self.simple()} || {self.simple()}",
            7: f"if {test}{more}; then {one}; else {two}; fi",
            8: f"{test} && {{ {one}; {two}; }}",
            9: self.random.choice((
                f"for A in 1 2; do {one}; done", f"( {one} )", f"{{ {one}; }} | cat",
                f"case $A in 1) {one};; *) {two};; esac",
                f'case "$A" in 0|2) {one};; "1") {two};; esac',
                f"case $B in (1) {one};; 2) {two};; *) {one}; esac",
                f"case $C in $A) {one};; [12]) {two};; esac",
                f"while {test}; do {one}; break; done",
            )),
        }[kind]  # fmt: skip


def by_bash(script: str) -> list[str]:
    """Return the words of the last command as bash has them."""
    command = ["timeout", "5", "bash", "-c", PRELUDE + script]
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.stdout.decode().split("\0")[:-1]


@click.command()
@click.option("--count", default=1000)
@click.option("--seed", default=1)
def main(count: int, seed: int) -> None:
    """Compare COUNT generated scripts."""
    resolved = differ = 0
    for number in range(seed, seed + count):
        script = Script(number).text()
        runs = [c.words for c in Shell([], {}).commands(script)]
        [*_, words] = [words[1:] for words in runs if words[0].text == "run"]
        open_at = next((n for n, word in enumerate(words) if word.unknown), len(words))
        alone = [(n, w.text) for n, w in enumerate(words[:3]) if not w.unknown]
        alone += list(enumerate(word.text for word in words[:open_at]))
        resolved += sum(not word.unknown for word in words)
        real = by_bash(script)
        whole = open_at < len(words) or len(real) == len(words)
        if not whole or any(real[n : n + 1] != [text] for n, text in alone):
            differ += 1
            print(f"{number}: {words}, bash: {real}\n{script}")
    print(f"{resolved} words resolved; {differ} of {count} scripts differ")


if __name__ == "__main__":
    main()
