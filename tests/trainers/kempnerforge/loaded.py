"""What was found wrong in a config that was loaded."""

TAKEN = {"boolean-for-number", "not-a-number", "not-text", "table-replaced"}
"""Kinds of faults that the loader takes without a word."""


def faults(loaded):
    return [(fault.kind, fault.facts["key"]) for fault in loaded.faults]


def refusals(loaded):
    return [found for found in faults(loaded) if found[0] not in TAKEN]
