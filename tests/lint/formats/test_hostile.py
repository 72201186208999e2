"""Whatever files are called and hold, every format stays whole and says the same."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lint.bad_input.running import lint
from tests.lint.formats import github_log, gitlab_report, junit_report, sarif_log
from tests.lint.formats.samples import SAMPLES

SIGNS = "%:,;#[]{}()<>&\"'\n\r\t\x00\x1b\x7f\x85\u2028\u202e\ufffe\udce9\U0001f600 a/\\"
READ = {
    "sarif": lambda text: sarif_log.checked(json.loads(text)),
    "gitlab": gitlab_report.checked,
    "junit": junit_report.checked,
    "github": github_log.commands,
}
EXAMPLES = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def toml_string(text):
    return '"' + "".join(f"\\U{ord(sign):08x}" for sign in text) + '"'


@EXAMPLES
@given(
    name=st.text(st.sampled_from(SIGNS), min_size=1, max_size=20),
    key=st.text(st.sampled_from(SIGNS.replace("\udce9", "")), max_size=20),
    output_format=st.sampled_from(list(READ)),
)
def test_any_name_and_any_key(name, key, output_format):
    config = f"[train]\n{toml_string(key)} = 1\n".encode()
    options = ("--output-format", output_format, "--stdin-filename", name)
    said = lint("-", *options, stdin=config)
    assert said.code == 1
    assert READ[output_format](said.out)


@pytest.mark.parametrize("output_format", [*READ, "json"])
def test_the_same_for_any_hash_seed(project, output_format):
    files, arguments = SAMPLES["all levels"]
    project({**files, **SAMPLES["held back"][0], **SAMPLES["hostile names"][0]})

    def said(seed):
        command = ("-m", "fp8tune", "lint", *arguments, "--statistics")
        path = os.pathsep.join(sys.path)
        return subprocess.run(
            [sys.executable, *command, "--output-format", output_format],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=False,
        )

    first, second = said("1"), said("2")
    assert first.stdout
    assert (first.returncode, first.stdout, first.stderr) == (
        second.returncode,
        second.stdout,
        second.stderr,
    )
