"""The language of conditions, of rules and of what trainers refuse."""
