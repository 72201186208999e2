"""Check whether this machine can run a search, and what is missing."""
