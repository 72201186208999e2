"""Does FP8 learn as bf16 does? Short runs of both at the setting that a search chose."""
