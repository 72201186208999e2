"""What a search writes: the tuned config with its comments, lines, and JSON."""
