"""The result of a dry run as leaves and a tree."""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.late import LateV
from rushlight.compiler.capture.semantics import tensor as tensors
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.symbolic import is_open, number_of
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.value import InstanceV, Obj, TensorV, TupleV, Value
from rushlight.compiler.graph.symbolic import SYMBOLS
from rushlight.core.tensor import Tensor
from rushlight.export.trees import is_constant
from rushlight.utils import _pytree as pytree
from rushlight.utils._pytree import TreeSpec


class Leaf(NamedTuple):
    """A tracer, a constant, or a number that is computed from open sizes."""

    value: Any


def leaves_of(session: Session, result: Value) -> tuple[TreeSpec, list[Leaf]]:
    """The tree of a result and its leaves. Abort for what is neither a tensor, a constant, nor a container of them."""
    leaves: list[Leaf] = []

    def take(value: Value) -> TreeSpec:
        if isinstance(value, TensorV):
            leaves.append(Leaf(value.tracer))
            return pytree._LEAF
        if isinstance(value, TupleV):
            context = None if value.kind is tuple else value.kind
            return TreeSpec(value.kind, context, tuple([take(x) for x in value.items]))
        items = session.as_list(value)
        if items is not None:
            return TreeSpec(list, None, tuple([take(x) for x in items.load()]))
        mapping = session.as_dict(value)
        if mapping is not None:
            entries = mapping.load()
            kind = mapping.kind if mapping.kind in pytree._NODES else dict
            return TreeSpec(kind, (list(entries), None), tuple([take(x) for x in entries.values()]))
        if isinstance(value, InstanceV):
            return instance(value)
        return existing(value)

    def instance(value: InstanceV) -> TreeSpec:
        node = pytree._NODES.get(value.cls)
        if node is None:
            raise Abort(f"a {value.cls.__qualname__} as result: return tensors, numbers, lists, tuples, dicts, named "
                        "tuples, or a dataclass registered with rushlight.export.register_dataclass")
        made = object.__new__(value.cls)
        fields = value.attrs.load()  # type: ignore[attr-defined]
        for key, item in fields.items():
            object.__setattr__(made, key, item)
        children, context = node.flatten(made)
        return TreeSpec(value.cls, context, tuple([take(child) for child in children]))

    def existing(value: Value) -> TreeSpec:
        if isinstance(value, LateV):
            raise Abort("a number from item(), tolist(), a clock or Python's random as result: return a tensor")
        if not isinstance(value, Obj):
            raise Abort(f"a {session.type_name(value)} as result")
        if is_open(value) and (number := number_of(value)) is not None:
            leaves.append(Leaf(number))
            return pytree._LEAF
        obj = value.obj
        node = pytree._node(type(obj))
        if node is not None and value.source is not None:  # a tuple or another container that existed before
            found = tensors.unwrap(session, value) if isinstance(obj, tuple) else None
            if found is not None:
                children, context = node.flatten(found)
                return TreeSpec(type(obj), context, tuple([native(child) for child in children]))
        if isinstance(obj, tuple) and node is not None:
            children, context = node.flatten(obj)
            return TreeSpec(type(obj), context, tuple([native(child) for child in children]))
        constant = session.concrete(value)
        if not is_constant(constant):
            raise Abort(f"a {type(constant).__name__} as result")
        leaves.append(Leaf(constant))
        return pytree._LEAF

    def native(found: Any) -> TreeSpec:
        if isinstance(found, Tracer):
            return take(session.recorder.value_of(found))
        if isinstance(found, Tensor):
            return take(TensorV(session.recorder.constant(found)))
        node = pytree._node(type(found))
        if node is not None:
            children, context = node.flatten(found)
            return TreeSpec(type(found), context, tuple([native(child) for child in children]))
        if not is_constant(found) and type(found) not in SYMBOLS:
            raise Abort(f"a {type(found).__name__} as result")
        leaves.append(Leaf(found))
        return pytree._LEAF

    return take(result), leaves
