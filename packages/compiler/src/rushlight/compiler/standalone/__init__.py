"""Programs as Python files that stand alone: they need numpy and numba, and not rushlight."""
