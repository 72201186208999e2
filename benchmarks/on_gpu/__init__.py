"""What a GPU shows: the rate of FP8 linears, a whole landscape, and a search."""
