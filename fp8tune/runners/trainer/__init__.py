"""Trials by the trainer that runs the job: KempnerForge, torchtitan, or a user's own."""
