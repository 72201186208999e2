"""Memory and speed of a config, predicted on any machine, with the error stated."""
