"""`rushlight.ao`: the place of PyTorch's quantization, which rushlight lacks."""
