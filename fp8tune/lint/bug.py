"""The message for an internal error."""

from __future__ import annotations

from fp8tune.lint.rules import Rule


def bug(error: Exception) -> str:
    """Return one line for a bug report: the rule, the error's type and its place."""
    place, rule, trace = "", "", error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if module.partition(".")[0] == "fp8tune":
            place = f"{module}:{trace.tb_lineno}"
        judged = trace.tb_frame.f_locals.get("rule")
        rule = f"rule {judged.name}, " if isinstance(judged, Rule) else rule
        trace = trace.tb_next
    where = f"{type(error).__name__} in {rule}{place}"
    return f"{where}: a bug in fp8tune; please report this line with the file"
