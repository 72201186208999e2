"""Measurements behind ``fp8tune verify`` and ``fp8tune compare`` of runs."""
