"""What a trial is: its setting, its record, its place in a study, and who runs it."""
