"""`rushlight._custom_ops`: torchvision imports the module and uses nothing of it. See `rushlight.library`."""
