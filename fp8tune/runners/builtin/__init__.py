"""Our own trial: a real model, converted and trained as the config's trainer would."""
