"""How fast logs and traces are read, and how often the verdict is right."""
