"""Instructions that compute: operators, items, attributes, building of containers and texts."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler.capture import late
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.frame import Frame
from rushlight.compiler.capture.late import LateV
from rushlight.compiler.capture.opcodes.table import op
from rushlight.compiler.capture.semantics import compare, container, iterate, methods, sets, stores, texts
from rushlight.compiler.capture.session import raise_
from rushlight.compiler.capture.symbolic import part
from rushlight.compiler.capture.value import SetV, TupleV, Value, constant
from rushlight.compiler.capture.view import DictV, ListV


@op("UNARY_NEGATIVE")
def unary_negative(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.unary(frame.session, "-", frame.stack.pop()))


@op("UNARY_INVERT")
def unary_invert(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.unary(frame.session, "~", frame.stack.pop()))


@op("UNARY_POSITIVE")
def unary_positive(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.unary(frame.session, "+", frame.stack.pop()))


@op("UNARY_NOT")
def unary_not(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.boolean(not container.truth(frame.session, frame.stack.pop())))


_BINARY = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")


@op("BINARY_OP")
def binary_op(frame: Frame, arg: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    inplace = arg >= len(_BINARY)
    frame.stack.append(compare.binary(frame.session, _BINARY[arg % len(_BINARY)], left, right, inplace))


@op("IS_OP")
def is_op(frame: Frame, arg: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(compare.boolean(compare.same(frame.session, left, right) is not bool(arg)))


@op("CONTAINS_OP")
def contains_op(frame: Frame, arg: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(compare.boolean(container.contains(frame.session, right, left) is not bool(arg)))


@op("BINARY_SUBSCR")
def binary_subscr(frame: Frame, arg: int) -> None:
    index, value = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(container.get_item(frame.session, value, index))


@op("STORE_SUBSCR")
def store_subscr(frame: Frame, arg: int) -> None:
    index, target, value = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
    container.set_item(frame.session, target, index, value)


@op("DELETE_SUBSCR")
def delete_subscr(frame: Frame, arg: int) -> None:
    index, target = frame.stack.pop(), frame.stack.pop()
    container.delete_item(frame.session, target, index)


@op("BUILD_SLICE")
def build_slice(frame: Frame, arg: int) -> None:
    frame.stack.append(constant(slice(*[part(frame.session, x) for x in frame.pop_many(arg)])))


# attributes


@op("STORE_ATTR")
def store_attr(frame: Frame, arg: int) -> None:
    target, value = frame.stack.pop(), frame.stack.pop()
    stores.store(frame.session, target, frame.code.co_names[arg], value)


@op("DELETE_ATTR")
def delete_attr(frame: Frame, arg: int) -> None:
    stores.delete(frame.session, frame.stack.pop(), frame.code.co_names[arg])


# building


@op("BUILD_TUPLE")
def build_tuple(frame: Frame, arg: int) -> None:
    frame.stack.append(TupleV(frame.pop_many(arg)))


@op("BUILD_LIST")
def build_list(frame: Frame, arg: int) -> None:
    frame.stack.append(ListV(frame.pop_many(arg)))


@op("BUILD_SET")
def build_set(frame: Frame, arg: int) -> None:
    frame.stack.append(SetV({container.key_of(frame.session, x) for x in frame.pop_many(arg)}))


@op("BUILD_MAP")
def build_map(frame: Frame, arg: int) -> None:
    items = frame.pop_many(2 * arg)
    frame.stack.append(DictV({container.key_of(frame.session, k): v for k, v in zip(items[::2], items[1::2])}))


@op("BUILD_CONST_KEY_MAP")
def build_const_key_map(frame: Frame, arg: int) -> None:
    keys = frame.stack.pop().obj
    frame.stack.append(DictV(dict(zip(keys, frame.pop_many(arg)))))


@op("BUILD_STRING")
def build_string(frame: Frame, arg: int) -> None:
    parts = frame.pop_many(arg)
    if any(isinstance(x, LateV) for x in parts):
        frame.stack.append(late.joined(frame.session, parts))
        return
    frame.stack.append(constant("".join([frame.session.concrete(x) for x in parts])))


@op("LIST_APPEND")
def list_append(frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    frame.stack[-arg].items.append(value)


@op("SET_ADD")
def set_add(frame: Frame, arg: int) -> None:
    key = container.key_of(frame.session, frame.stack.pop())
    frame.stack[-arg].keys.add(key)


@op("MAP_ADD")
def map_add(frame: Frame, arg: int) -> None:
    value, key = frame.stack.pop(), container.key_of(frame.session, frame.stack.pop())
    frame.stack[-arg].set(key, value)


@op("LIST_EXTEND")
def list_extend(frame: Frame, arg: int) -> None:
    values = iterate.unpack(frame.session, frame.stack.pop())
    frame.stack[-arg].items.extend(values)


@op("SET_UPDATE")
def set_update(frame: Frame, arg: int) -> None:
    keys = sets.keys_of(frame.session, frame.stack.pop())
    frame.stack[-arg].keys.update(keys)


@op("DICT_UPDATE")
def dict_update(frame: Frame, arg: int) -> None:
    source = frame.stack.pop()
    if frame.session.as_dict(source) is None:
        raise Abort("unpacking a mapping that is no dict")
    methods.update(frame.session, frame.stack[-arg], [source], {})


@op("DICT_MERGE")
def dict_merge(frame: Frame, arg: int) -> None:
    source = frame.session.as_dict(frame.stack.pop())
    if source is None:
        raise Abort("unpacking a mapping that is no dict")
    target = frame.stack[-arg]
    for key, value in source.load().items():
        if type(key) is not str or target.get(key) is not None:
            raise Abort("keyword arguments that Python refuses")  # naming the function in its message
        target.set(key, value)


@op("UNPACK_SEQUENCE")
def unpack_sequence(frame: Frame, arg: int) -> None:
    frame.stack.extend(reversed(iterate.unpack_exactly(frame.session, frame.stack.pop(), arg)))


@op("UNPACK_EX")
def unpack_ex(frame: Frame, arg: int) -> None:
    before, after = arg & 0xFF, arg >> 8
    items = iterate.unpack(frame.session, frame.stack.pop())
    if len(items) < before + after:
        raise_(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    cut = len(items) - after
    parts = [*items[:before], ListV(items[before:cut]), *items[cut:]]
    frame.stack.extend(reversed(parts))


# texts


def formatted(frame: Frame, value: Value, conversion: Callable | None, spec: str) -> None:
    """Push `format(conversion(value), spec)`."""
    if isinstance(value, LateV):
        frame.stack.append(late.text(value, conversion, spec))
        return
    frame.stack.append(constant(texts.text(frame.session, value, conversion, spec)))


CONVERSIONS = (None, str, repr, ascii)
