"""KempnerForge: schema as data, its loader's semantics, and its config as a job."""
