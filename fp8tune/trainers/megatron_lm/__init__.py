"""Megatron-LM: the flags that a launch script gives its training programs."""
