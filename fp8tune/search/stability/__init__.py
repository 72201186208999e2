"""Does FP8 learn as bf16 does: short runs of both at the setting that was chosen."""
