"""Configs of a run, and what was found in them."""

FP8 = '[train]\nmixed_precision = "fp8"\ncompile_model = false\n'
TP = '[train]\nmixed_precision = "fp8"\n[distributed]\ntp = 4\n'


def names(result):
    return [(d.path, d.rule) for d in result.diagnostics]


def rules_of(result):
    return [d.rule for d in result.diagnostics]
