"""What prime-rl's own config classes say, compared with what fp8tune says."""
