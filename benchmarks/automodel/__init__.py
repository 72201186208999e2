"""What NeMo Automodel accepts, extracted from it, and its verdicts."""
