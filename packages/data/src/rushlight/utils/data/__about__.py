"""The version of the distribution rushlight-data."""

__version__ = "0.1.0"
