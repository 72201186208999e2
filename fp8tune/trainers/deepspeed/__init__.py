"""DeepSpeed: its JSON config."""
