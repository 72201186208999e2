"""Check and tune FP8 training configs for Hopper GPUs."""

__version__ = "0.2.0"
