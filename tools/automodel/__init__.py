"""The makers of what fp8tune knows of a trainer."""
