"""Signal processing: `rushlight.signal.windows`."""

from rushlight.signal import windows

__all__ = ["windows"]
