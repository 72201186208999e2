"""Compare the losses of FP8 and bf16 in short runs at the chosen setting."""
