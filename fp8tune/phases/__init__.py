"""A run in phases: bf16 at its beginning and end, FP8 between them."""


class CannotPlan(Exception):
    """The phases would not be the same run; the message says why in one line."""
