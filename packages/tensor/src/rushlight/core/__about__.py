"""The version of the distribution rushlight-tensor."""

__version__ = "0.1.0"
