"""The built-in trial and KempnerForge's own script on the same configs and data."""
