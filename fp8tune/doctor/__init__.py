"""What this machine can do for a search, and what is missing."""
