"""Measurements with LLaMA-Factory itself."""
