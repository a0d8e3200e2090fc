"""The version of the distribution rushlight-compiler."""

__version__ = "0.1.0"
