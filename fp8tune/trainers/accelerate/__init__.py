"""Accelerate's launch file, together with the training arguments."""
