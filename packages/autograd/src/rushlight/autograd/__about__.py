"""The version of the distribution rushlight-autograd."""

__version__ = "0.1.0"
