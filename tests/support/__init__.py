"""What several tests, the benchmarks and the tools share."""
