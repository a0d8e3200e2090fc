"""From graph nodes to kernels."""
