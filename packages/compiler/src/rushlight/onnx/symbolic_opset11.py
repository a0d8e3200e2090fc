"""The rules of PyTorch's ONNX exporter for opset 11: rushlight has none."""
