"""Trials: settings, records, their place in a study, and the runner's interface."""
