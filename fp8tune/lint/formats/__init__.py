"""Output formats for programs and CI services: one module each, imported on demand."""
