"""Reading configs: paths to a ``Config``, with the other files of its job."""
