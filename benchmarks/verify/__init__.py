"""What measures and records for ``fp8tune verify``."""
