"""Search: measure a config's execution settings under a wall budget, keep the best."""
