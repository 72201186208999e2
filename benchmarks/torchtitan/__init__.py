"""What is measured about torchtitan's TOML releases, from their wheels."""
