"""What Megatron-Bridge accepts, extracted from it, and its verdicts."""
