"""Names at the private place where PyTorch's documentation points for collation of own types."""

from rushlight.utils.data._utils import collate as collate
