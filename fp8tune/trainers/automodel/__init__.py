"""NeMo Automodel: recipes as YAML files."""
