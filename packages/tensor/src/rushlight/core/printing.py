"""Text of tensors."""


def tensor_text(tensor) -> str:
    return f"tensor({tensor._host_array('repr')})"
