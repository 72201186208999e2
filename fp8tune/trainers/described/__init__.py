"""What stands in for the modules of a trainer that is described by data alone."""
