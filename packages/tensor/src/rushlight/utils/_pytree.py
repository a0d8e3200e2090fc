"""Nested lists, tuples and dicts as a flat list of leaves and a description: `rushlight.utils._pytree`.

Example:
    >>> leaves, spec = tree_flatten({"a": 1, "b": [2, 3]})
    >>> leaves
    [1, 2, 3]
    >>> tree_unflatten([x * 10 for x in leaves], spec)
    {'a': 10, 'b': [20, 30]}
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "PyTree",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_iter",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any


class _Node(NamedTuple):
    """How a container type is taken apart into children and a context, and put together again."""

    flatten: Callable[[Any], tuple[list, Any]]
    unflatten: Callable[[list, Any], Any]


def _mapping(build: Callable[[dict, Any], Any], about: Callable[[Any], Any] = lambda value: None) -> _Node:
    return _Node(
        lambda value: (list(value.values()), (list(value), about(value))),
        lambda children, context: build(dict(zip(context[0], children)), context[1]),
    )


_NODES: dict[type, _Node] = {
    list: _Node(lambda value: (value, None), lambda children, _: list(children)),
    tuple: _Node(lambda value: (list(value), None), lambda children, _: tuple(children)),
    deque: _Node(lambda value: (list(value), value.maxlen), deque),
    dict: _mapping(lambda items, _: items),
    OrderedDict: _mapping(lambda items, _: OrderedDict(items)),
    defaultdict: _mapping(lambda items, factory: defaultdict(factory, items), lambda value: value.default_factory),
}
_NAMED_TUPLE = _Node(lambda value: (list(value), type(value)), lambda children, kind: kind(*children))


@dataclass(frozen=True)
class TreeSpec:
    """The shape of a tree: the container's type, what else it takes to build one, and the specs of the children.

    A leaf has `type` None.
    """

    type: Any
    context: Any
    children_specs: tuple[TreeSpec, ...]

    @property
    def num_leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.is_leaf() else sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Is this no container?"""
        return self.type is None


_LEAF = TreeSpec(None, None, ())


def register_pytree_node(cls: type, flatten_fn: Callable, unflatten_fn: Callable, **options: Any) -> None:
    """Let trees contain a class: `flatten_fn(value) -> (children, context)`, `unflatten_fn(children, context)`."""
    _NODES[cls] = _Node(flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def _node(kind: type) -> _Node | None:
    named = issubclass(kind, tuple) and hasattr(kind, "_fields") and kind.__bases__ == (tuple,)
    return _NODES.get(kind) or (_NAMED_TUPLE if named else None)


def tree_flatten(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list, TreeSpec]:
    """The leaves, from left to right, and the spec that puts them together again."""
    leaves: list = []

    def take(value: Any) -> TreeSpec:
        node = None if is_leaf is not None and is_leaf(value) else _node(type(value))
        if node is None:
            leaves.append(value)
            return _LEAF
        children, context = node.flatten(value)
        return TreeSpec(type(value), context, tuple([take(child) for child in children]))

    spec = take(tree)
    return leaves, spec


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> PyTree:
    """The tree with these leaves. ValueError when there are more or fewer than the spec has places."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(leaves)} leaves for a tree of {treespec.num_leaves}")
    rest = iter(leaves)

    def build(spec: TreeSpec) -> Any:
        if spec.is_leaf():
            return next(rest)
        return _node(spec.type).unflatten([build(child) for child in spec.children_specs], spec.context)

    return build(treespec)


def tree_leaves(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list:
    """The leaves, from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """An iterator over the leaves, from left to right."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The spec alone."""
    return tree_flatten(tree, is_leaf)[1]


def _leaves_like(tree: Any, spec: TreeSpec) -> list:
    """The values in a tree at the places of the leaves of a spec."""
    if spec.is_leaf():
        return [tree]
    if type(tree) is not spec.type:
        raise ValueError(f"tree_map: the trees differ: {spec.type.__name__} and {type(tree).__name__}")
    children, context = _node(type(tree)).flatten(tree)
    if isinstance(tree, dict) and set(tree) == set(spec.context[0]):
        children, context = [tree[key] for key in spec.context[0]], spec.context
    if len(children) != len(spec.children_specs) or context != spec.context:
        raise ValueError(f"tree_map: the trees differ in a {spec.type.__name__}: {context} and {spec.context}")
    return [leaf for child, inner in zip(children, spec.children_specs) for leaf in _leaves_like(child, inner)]


def tree_map(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> PyTree:
    """The tree of `func(leaf, *leaves of the rests at the same place)`. ValueError when the trees differ."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return tree_unflatten(map(func, leaves, *[_leaves_like(rest, spec) for rest in rests]), spec)


def tree_map_(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> PyTree:
    """Call `func` on the leaves for what it does, and give the tree back."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(chosen: Any, func: Callable, tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> PyTree:
    """`tree_map` on the leaves of a type, of several, or for which `chosen(leaf)` holds; others stay."""
    picks = (lambda leaf: isinstance(leaf, chosen)) if isinstance(chosen, (type, tuple)) else chosen
    return tree_map(lambda leaf: func(leaf) if picks(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Does `pred` hold for all leaves?"""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Does `pred` hold for a leaf?"""
    return any(map(pred, tree_leaves(tree, is_leaf)))
