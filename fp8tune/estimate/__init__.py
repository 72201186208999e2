"""Predict memory and speed of a config without a GPU, with error ranges."""
