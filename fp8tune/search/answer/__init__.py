"""The answer of a search: decided from its trials, then worded."""
