"""Kernels over numpy memory, and the threads and memory that they use."""
