"""Gradient of taking the same memory once more."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims

vjp(prims.alias, input=lambda g: g)
