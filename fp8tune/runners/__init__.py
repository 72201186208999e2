"""What executes a trial: our own model, the user's trainer, or recorded trials."""
