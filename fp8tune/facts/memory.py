"""Memory of one rank at the peak of a step."""
