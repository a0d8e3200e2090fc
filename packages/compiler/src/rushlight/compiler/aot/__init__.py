"""Gradients ahead of time: from a graph to a forward and a backward graph."""
