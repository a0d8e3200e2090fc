"""Capture: from a Python call to a graph, the guards under which it holds, and its side effects."""
