"""LLaMA-Factory: its keys, its checks, and whether FP8 is really on."""
