"""Parts of `rushlight.library`."""
