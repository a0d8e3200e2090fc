"""The spine: dtypes, devices, metadata, ops, dispatch, and the Tensor class."""
