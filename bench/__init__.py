"""Benchmarks: absolute times are printed, and judged beside a peer in the same run."""
