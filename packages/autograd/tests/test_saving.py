"""Tensors that require grad, in files."""

from __future__ import annotations

import io

import rushlight


def test_a_saved_leaf_still_requires_grad():
    buffer = io.BytesIO()
    rushlight.save({"leaf": rushlight.ones(2).requires_grad_(), "plain": rushlight.ones(2)}, buffer)
    buffer.seek(0)
    got = rushlight.load(buffer)
    assert got["leaf"].requires_grad and got["leaf"].is_leaf and not got["plain"].requires_grad
