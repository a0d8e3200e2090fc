"""The version of the distribution rushlight-nn."""

__version__ = "0.1.0"
