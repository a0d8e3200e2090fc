"""Special functions: gamma, error, Bessel and zeta functions, orthogonal polynomials, and their like."""

from rushlight.core.namespace import exports_of

__getattr__ = exports_of("special")
