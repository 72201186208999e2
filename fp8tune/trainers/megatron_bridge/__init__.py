"""Megatron-Bridge: YAML files that override a recipe in Python."""
