"""torchtitan 0.1.0 to 0.2.2: schemas and models as data, its loader, its job."""
