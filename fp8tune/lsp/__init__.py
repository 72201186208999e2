"""The language server: what lint, explain and estimate say, in an editor."""
