"""Static checks of train configs: rules as data, and the engine that runs them."""
