"""Benchmarks: figures as ratios to something timed in the same run."""
