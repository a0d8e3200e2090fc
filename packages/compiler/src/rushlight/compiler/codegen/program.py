"""The program of a graph: a generated Python function that calls one plan or fused kernel after the other.

`program.source` shows it:

    def program(v0, v1):
        v2_ = empty(m_v2)
        fused_0(0, 128, v2_, v0._array, v1._array)  # mul, add, tanh
        v2 = wrap(v2_, m_v2)
        v3 = call_1(v2)  # sum
        del v2
        return [v3]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.compiler.graph.passes import eliminate_common, eliminate_dead
from rushlight.compiler.lower.fuse import Group, groups_of
from rushlight.compiler.lower.scalars import compose
from rushlight.core import eager
from rushlight.core import scalar as s
from rushlight.core.meta import Meta
from rushlight.core.op import meta_of
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu.elementwise import elementwise_kernel
from rushlight.kernels.cpu.reduce import reduce_kernel
from rushlight.kernels.half import compute_dtype
from rushlight.kernels.layout import plan_layout


class Program:
    """A compiled graph: call it with a list of tensors. `source` is the generated code, `kernels` are its fused loops."""

    def __init__(self, graph: Graph) -> None:
        self.graph = eliminate_dead(eliminate_common(graph))
        self.kernels: list[Any] = []
        groups = groups_of(self.graph)
        steps = [(group, self._results(group, groups)) for group in groups]
        namespace: dict[str, Any] = {}
        self.source = self._generate(steps, namespace)
        exec(compile(self.source, "<rushlight program>", "exec"), namespace)  # noqa: S102  our own text
        self._run = namespace["program"]

    def __call__(self, inputs: list) -> list:
        return self._run(*inputs)

    def _results(self, group: Group, groups: list[Group]) -> list[Value]:
        """The values of a group that other groups read or the program returns; all of a single node's."""
        if len(group.nodes) == 1 or group.reduces:
            return group.nodes[-1].outputs
        read = {*self.graph.outputs, *(v for other in groups if group in other.after for v in other.operands())}
        return [node.outputs[0] for node in group.nodes if node.outputs[0] in read]

    def _generate(self, steps: list[tuple[Group, list[Value]]], namespace: dict[str, Any]) -> str:
        names: dict[Value, str] = {}

        def listed(values: list[Value]) -> str:
            return ", ".join([names.setdefault(v, f"v{len(names)}") for v in values])

        lines = [f"def program({listed(self.graph.inputs)}):"]
        free_after = _last_uses(steps, self.graph.outputs)
        for number, (group, results) in enumerate(steps):
            words = ", ".join([node.op.name for node in group.nodes])
            operands = listed(group.operands())
            if group.reduces:
                namespace[f"fold_{number}"] = self._fold(group)
                lines.append(f"    {listed(results)} = fold_{number}({operands})  # {words}")
            elif len(group.nodes) > 1:
                lines += self._fused(number, group, results, operands.split(", "), listed(results).split(", "), namespace, words)
            else:
                namespace[f"call_{number}"] = call_of(group.nodes[0])
                comma = "," if len(results) == 1 and not _single(group.nodes[0]) else ""
                lines.append(f"    {listed(results)}{comma} = call_{number}({operands})  # {words}")
            if free_after[number]:
                lines.append(f"    del {listed(free_after[number])}")
        lines.append(f"    return [{listed(self.graph.outputs)}]")
        return "\n".join(lines) + "\n"

    def _fold(self, group: Group) -> Callable[..., Tensor]:
        """A reduction together with the calls that make what it folds."""
        *nodes, node = group.nodes
        operands = group.operands()
        init, combine, finish = node.op.reduce
        out, axes = node.outputs[0].meta, node.params[0]
        accumulator = compute_dtype(out.numpy)
        inner = compose(nodes, operands, [node.inputs[0]])
        kernel = reduce_kernel(combine, init, [v.meta.numpy for v in operands], out.numpy, acc_dtype=accumulator, finish=finish,
                               pre=lambda *elements: s.cast(inner(*elements)[0], accumulator))
        self.kernels.append(kernel)
        kept = tuple([size for d, size in enumerate(node.inputs[0].meta.shape) if d not in axes])

        def run(*tensors: Tensor) -> Tensor:
            result = eager.empty_array(out)
            kernel(result.reshape(kept), *[t._array for t in tensors], axes=axes)
            return wrap(result, out)

        return run

    def _fused(self, number: int, group: Group, results: list[Value], reads: list[str], writes: list[str], namespace: dict[str, Any],
               words: str) -> list[str]:
        """The lines that allocate the results of a group, run its loop, and wrap them."""
        operands = group.operands()
        metas = [v.meta for v in (*results, *operands)]
        kernel = elementwise_kernel(compose(group.nodes, operands, results), [v.meta.numpy for v in operands],
                                    tuple([v.meta.numpy for v in results]))
        self.kernels.append(kernel)
        shape, size = results[0].meta.shape, results[0].meta.numel
        made = [f"{name}_" for name in writes]
        arrays = ", ".join([*made, *[f"{name}._array" for name in reads]])
        lines = [f"    {array} = empty(m_{name})" for array, name in zip(made, writes)]
        if 0 < size < 2 * kernel.grain:
            # The metadata is guarded, so the walk through memory is known now and the native loop is called directly.
            walk = plan_layout(shape, [broadcast_strides(m, shape) for m in metas])
            namespace[f"fused_{number}"] = kernel.loop(walk.walks, walk.rank)
            namespace[f"layout_{number}"] = walk.packed()
            layout = "" if walk.flat else f"layout_{number}, "
            lines.append(f"    fused_{number}(0, {size}, {layout}{arrays})  # {words}")
        elif size:
            namespace[f"fused_{number}"] = kernel
            lines.append(f"    fused_{number}(({', '.join(made)},), {', '.join([f'{name}._array' for name in reads])})  # {words}")
        namespace.update({"empty": eager.empty_array, "wrap": wrap, **{f"m_{name}": v.meta for name, v in zip(writes, results)}})
        return lines + [f"    {name} = wrap({name}_, m_{name})" for name in writes]


def broadcast_strides(m: Meta, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of an operand read at a larger shape: 0 where it repeats."""
    own = tuple([0 if size == 1 else stride for size, stride in zip(m.shape, m.strides)])
    return (0,) * (len(shape) - m.ndim) + own


def _single(node: Node) -> bool:
    """Does the op return one tensor rather than a tuple?"""
    inferred = node.op.infer(*[x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs], *node.params)
    return not isinstance(inferred, tuple)


def call_of(node: Node) -> Callable[..., Any]:
    """The plan of one op call as a function of the tensors among its operands, each once."""
    metas = tuple([x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs])
    run = eager.make_plan(node.op, metas, node.params)
    values = list(dict.fromkeys([x for x in node.inputs if isinstance(x, Value)]))
    if list(node.inputs) == values:
        return run
    places = [values.index(x) if isinstance(x, Value) else None for x in node.inputs]

    def call(*tensors: Tensor) -> Any:
        return run(*[x if at is None else tensors[at] for at, x in zip(places, node.inputs)])

    return call


def _last_uses(steps: list[tuple[Group, list[Value]]], kept: list[Value]) -> list[list[Value]]:
    """For each step the values that are needed no more after it, so that their memory can be used again."""
    last: dict[Value, int] = {}
    for number, (group, results) in enumerate(steps):
        last.update(dict.fromkeys([*group.operands(), *results], number))
    found: list[list[Value]] = [[] for _ in steps]
    for value, number in last.items():
        if value not in kept:
            found[number].append(value)
    return found


def compile_program(graph: Graph) -> Program:
    """Compile a graph without gradients."""
    return Program(graph)
