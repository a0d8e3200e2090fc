"""`rushlight.version`: which version this is, and that no vendor library is built in."""

from rushlight.core.__about__ import __version__

cuda = hip = xpu = rocm = git_version = None
debug = False

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]
