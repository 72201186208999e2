"""What `fp8tune verify`, `compare` and `phases` claim, measured."""
