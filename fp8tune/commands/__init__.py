"""One thin file per command; the implementation is imported when a command runs."""
