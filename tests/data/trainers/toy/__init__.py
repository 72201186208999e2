"""A trainer of the tests."""
