"""The built-in trial: a real model, converted and trained as the trainer does it."""
