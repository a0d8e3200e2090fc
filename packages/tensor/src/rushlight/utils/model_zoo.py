"""`rushlight.utils.model_zoo`: the older name of loading weights by address."""

from rushlight.hub import load_state_dict_from_url as load_url
from rushlight.hub import tqdm

__all__ = ["load_url", "tqdm"]
