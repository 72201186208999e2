"""What programs and CI services read; one module per format, loaded when asked for."""
