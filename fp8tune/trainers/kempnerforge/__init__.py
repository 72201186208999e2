"""KempnerForge: schema as data, its loader's semantics, and its config as a job."""

WORDS = (
    "job",
    "vlm",
    "freezing",
    "mixture",
    "data",
    "optim",
    "matrices",
    "gemms",
    "reach",
    "trial",
    "memory",
    "bounds",
    "activations",
    "recompute",
    "experts",
    "rows",
)
"""Modules whose public functions are names of the job."""
