"""Lazy replay: the second tier of `rushlight.compile`, for functions that cannot be captured whole."""
