"""What a run found and what it prints, in a form to compare."""

import io

from fp8tune.lint.show import Style, show

FP8 = '[train]\nmixed_precision = "fp8"\ncompile_model = false\n'


def names(result):
    return [(d.path, d.rule) for d in result.diagnostics]


def rules_of(result):
    return [d.rule for d in result.diagnostics]


def printed(result, output_format="full", *, quiet=False):
    out, err = io.StringIO(), io.StringIO()
    show(result, Style(output_format, quiet=quiet), out, err)
    return out.getvalue(), err.getvalue()
