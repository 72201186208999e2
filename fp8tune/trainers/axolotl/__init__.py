"""Axolotl: its keys, its checks, and what a run really does."""
