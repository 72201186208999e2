"""What Megatron-LM accepts, extracted from it, and its verdicts."""
