"""Backends: what turns a graph into a callable."""
