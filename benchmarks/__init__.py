"""What fp8tune is measured by; README.md says how to run each script."""
