"""One thin file per command; each imports its work when it runs."""
