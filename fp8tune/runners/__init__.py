"""Runners: execute trials on the built-in model, or replay recorded trials."""
