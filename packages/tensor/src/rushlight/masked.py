"""Reductions, scans and softmax over the elements that a mask selects."""

from rushlight.core.namespace import exports_of

__getattr__ = exports_of("masked")
