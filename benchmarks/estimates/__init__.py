"""Predictions of memory and speed against every published run that we hold."""
