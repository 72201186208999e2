"""Trials by the trainer itself: KempnerForge, torchtitan, or one of the user's."""
