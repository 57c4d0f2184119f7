"""Comparison benchmarks: uks beside other sandboxes. bench/README.md explains them."""
