"""Programs in files: what comes back, without the model's source, and what damaged or hostile files do: nothing."""

from __future__ import annotations

import collections
import copy
import dataclasses
import io
import json
import subprocess
import sys
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.export import Dim, export, load, register_dataclass, save
from rushlight.export.checked import read_graph
from rushlight.export.symbols import facts_from_json, reader

nn = pytest.importorskip("rushlight.nn")

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Point:
    x: rushlight.Tensor
    y: rushlight.Tensor


class Model(nn.Module):
    """Weights that are shared, constants, buffers that are written, draws."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.again = nn.Linear(4, 4)
        self.again.weight = self.layers[0].weight
        self.register_buffer("seen", rushlight.zeros((), dtype=rushlight.int64))
        self.mask = rushlight.tensor([True, False, True, True])
        self.halves = rushlight.arange(8.0, dtype=rushlight.bfloat16).reshape(2, 4).t()

    def forward(self, pair, scale):
        self.seen.add_(1)
        y = self.again(self.layers(pair.first)) * scale
        return {"y": y.where(self.mask, pair.second), "seen": self.seen, "halves": self.halves.float()}


def stored(program):
    file = io.BytesIO()
    save(program, file)
    return file.getvalue()


@pytest.fixture(scope="module")
def example():
    rushlight.manual_seed(0)
    model, pair = Model(), Pair(rushlight.randn(3, 4), rushlight.randn(4))
    return model, pair, export(model, (pair, 2.5))


def test_a_stored_program_is_the_same_program(example):
    model, pair, program = example
    again = load(io.BytesIO(stored(program)))
    assert str(again) == str(program) and stored(again) == stored(program)
    run = again.module()
    assert run.again.weight is run.layers.get_submodule("0").weight and isinstance(run.again.weight, nn.Parameter)
    rushlight.manual_seed(1)
    expected = model(pair, 2.5)
    rushlight.manual_seed(1)
    found = run(pair, 2.5)
    rushlight.testing.assert_close(found["y"], expected["y"])
    assert found["seen"] is run.seen and found["halves"].tolist() == expected["halves"].tolist()
    found["y"].sum().backward()
    assert run.again.weight.grad is not None


READER = """
import sys, rushlight
program = rushlight.export.load(sys.argv[1])
pair, scale = program.example_inputs[0]
assert type(pair).__name__ == "Pair" and pair._fields == ("first", "second")
rushlight.manual_seed(1)
print(program.module()(pair, scale)["y"].tolist())
rushlight.manual_seed(1)
print(rushlight.compile(program.module(), fullgraph=True)(pair, scale)["seen"].item())
"""


def test_another_process_needs_no_source(example, tmp_path):
    model, pair, program = example
    save(program, tmp_path / "program.rl", extra_files={"note": "hello"})
    rushlight.manual_seed(1)
    count = model.seen.item()
    expected = model(pair, 2.5)["y"].tolist()
    done = subprocess.run([sys.executable, "-c", READER, tmp_path / "program.rl"], capture_output=True, text=True,
                          cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == [str(expected), str(count + 2)]
    files = {"note": None, "other": "kept"}
    load(tmp_path / "program.rl", extra_files=files)
    assert files == {"note": "hello", "other": "kept"} and [p.name for p in tmp_path.iterdir()] == ["program.rl"]


def test_dataclasses_are_known_by_their_registered_name():
    register_dataclass(Point, serialized_type_name="tests.Point")
    program = export(lambda p: Point(p.y, p.x * 2), (Point(rushlight.ones(2), rushlight.zeros(3)),))
    file = stored(program)
    found = load(io.BytesIO(file)).module()(Point(rushlight.ones(2), rushlight.ones(3)))
    assert type(found) is Point and found.y.tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"register the class before.*tests.Dot"):
        load(io.BytesIO(edited(file, {"signature.json": lambda x: x.replace(b"tests.Point", b"tests.Dot")})))
    with pytest.raises(TypeError, match="dataclass"):
        register_dataclass(int)


class Named(nn.Module):
    """Names that exported and scripted modules have, too."""

    def __init__(self):
        super().__init__()
        self.code = nn.Linear(2, 2)
        self.register_buffer("graph", rushlight.ones(2))
        self.register_buffer("method", rushlight.ones(2), persistent=False)
        self.original_name = nn.Parameter(rushlight.ones(2))
        self.save, self._run = rushlight.ones(2), rushlight.ones(2)

    def forward(self, x):
        self.graph.add_(1)
        return self.code(x) + self.graph + self.method + self.original_name + self.save + self._run


def test_any_name_of_a_tensor_can_be_stored():
    model, x = Named(), rushlight.ones(1, 2)
    program = export(model, (x,))
    script = rushlight.jit.script(copy.deepcopy(model))
    script(x)
    file = io.BytesIO()
    rushlight.jit.save(script, file)
    loaded = load(io.BytesIO(stored(program))).module(), rushlight.jit.load(io.BytesIO(file.getvalue()))
    for module, seen in zip(loaded, (0, 1)):
        again = rushlight.compile(copy.deepcopy(module), fullgraph=module is loaded[0])
        assert set(module.state_dict()) == set(model.state_dict())
        want = model.code(x) + 5 + seen
        for run in (module, again):
            assert rushlight.allclose(run(x), want + 1) and rushlight.allclose(run(x), want + 2)
        assert "forward" in module.code and module.graph.nodes


class Shared(nn.Module):
    """A buffer that is written, and one in the same memory."""

    def __init__(self):
        super().__init__()
        self.register_buffer("a", rushlight.zeros(3))
        self.register_buffer("b", self.a[:2])
        self.register_buffer("again", self.a)

    def forward(self, x):
        return self.a.add_(x).sum() + self.b.sum()


def test_writes_to_shared_memory_are_not_stored():
    program = export(Shared(), (rushlight.ones(3),))
    with pytest.raises(RuntimeError, match="save: a: a tensor that the program writes to shares memory"):
        stored(program)
    program = export(nn.BatchNorm1d(2), (rushlight.ones(3, 2),))
    assert load(io.BytesIO(stored(program))).graph_signature.buffers_to_mutate


# files that were not made by `save`


def edited(file, changes):
    """An archive with some of its files changed, with right checksums."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            change = changes.get(name.removeprefix("archive/"), lambda x: x)
            new.writestr(name, change(old.read(name)))
    return made.getvalue()


def with_json(change):
    def edit(data):
        signature = json.loads(data)
        change(signature)
        return json.dumps(signature).encode()

    return {"signature.json": edit}


def with_graph(old, new):
    def edit(data):
        assert old in data.decode()
        return data.decode().replace(old, new).encode()

    return {"graph.txt": edit}


HOSTILE = {
    "unknown op": with_graph("linear(", "system("),
    "mutating op": with_graph("= add(", "= add_("),
    "wrong shape": with_graph("# float32[3, 4]", "# float32[3, 5]"),
    "overflowing shape": with_graph("# float32[3, 4]", "# float32[3, 4000000000000000000000]"),
    "code": with_graph("= add(", "= __import__('os').system("),
    "negative size": with_graph("v0: float32[4, 4]", "v0: float32[-4, 4]"),
    "disorder": with_graph("  v", "    v"),
    "no output": with_graph("  return v", "  return w"),
    "empty graph": {"graph.txt": lambda x: b""},
    "bad utf-8": {"graph.txt": lambda x: b"\xff" + x},
    "deep graph": {"graph.txt": lambda x: x + b"  v1 = add(" + b"(" * 100_000},
    "bad JSON": {"signature.json": lambda x: x[:-3]},
    "deep JSON": {"signature.json": lambda x: b"[" * 100_000},
    "no dict": {"signature.json": lambda x: b"[1]"},
    "later format": with_json(lambda s: s.update(format=99)),
    "tensor number": with_json(lambda s: s["state_dict"].update({"seen": 99})),
    "negative number": with_json(lambda s: s["state_dict"].update({"seen": -1})),
    "dunder target": with_json(lambda s: s["inputs"][0].update(target="../../x")),
    "missing target": with_json(lambda s: s["inputs"][0].update(target="nowhere")),
    "too few inputs": with_json(lambda s: s["inputs"].pop()),
    "too few outputs": with_json(lambda s: s["outputs"].pop()),
    "wrong kind": with_json(lambda s: s["inputs"][0].update(kind="SYSTEM")),
    "no named tuple": with_json(lambda s: s["in_spec"]["children"][0]["children"][0].update(
        fields=["__import__('os')", "b"])),
    "more places": with_json(lambda s: s["out_spec"].update(children=["*"] * 9, keys=list(range(9)))),
    "huge tensor": with_json(lambda s: s["tensors"].__setitem__(0, "float32[1000000, 1000000]")),
    "huge strides": with_json(lambda s: s["tensors"].__setitem__(0, "float32[4, 4]{1000000000, 1}")),
    "other device": with_json(lambda s: s["tensors"].__setitem__(0, "float32[4, 4]@cuda:0")),
    "short weights": {"data/0": lambda x: x[:-1]},
    "no draw": with_json(lambda s: s["draws"][0].update(call=s["draws"][0]["call"].replace("rand(", "add("))),
    "draw elsewhere": with_json(lambda s: s["draws"][0].update(offset=10**30)),
    "written to another": with_json(lambda s: s["outputs"][0].update(target="layers.0.weight")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(example, name):
    file = edited(stored(example[2]), HOSTILE[name])
    with pytest.raises(RuntimeError, match=r"load: "):
        load(io.BytesIO(file))


@pytest.mark.parametrize("name", ["__class__.parameters", "forward.__func__.__wrapped__", "_modules", "forward",
                                  "train.x"])
def test_names_reach_no_attributes(example, name):
    def rename(signature):
        spec = next(s for s in signature["inputs"] if s["kind"] == "CONSTANT_TENSOR")
        signature["constants"][name] = signature["constants"].pop(spec["target"])
        spec["target"] = name

    before = {cls: dict(vars(cls)) for cls in type(example[2].module()).__mro__}
    module = load(io.BytesIO(edited(stored(example[2]), with_json(rename)))).module()
    assert all(dict(vars(cls)) == known for cls, known in before.items())
    assert callable(module.forward) and callable(module.train) and isinstance(module._modules, dict)


def test_compressed_files_are_refused(example):
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(stored(example[2]))) as old, zipfile.ZipFile(made, "w",
                                                                               zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(RuntimeError, match="compressed"):
        load(io.BytesIO(made.getvalue()))
    with pytest.raises(FileNotFoundError):
        load("/nowhere/at all")
    with pytest.raises(RuntimeError, match="load: "):
        load(io.BytesIO(b"PK\3\4"))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_files_are_an_error_or_the_same(example, data):
    """Bytes changed anywhere: a checksum, a structure or a signature notices, or nothing that counts was changed."""
    file = bytearray(stored(example[2]))
    kind = data.draw(st.sampled_from(["cut", "flip", "fill"]))
    at = data.draw(st.integers(0, len(file) - 1))
    if kind == "cut":
        del file[at:]
    elif kind == "flip":
        file[at] ^= data.draw(st.integers(1, 255))
    else:
        file[at:at + 20] = bytes([data.draw(st.integers(0, 255))]) * len(file[at:at + 20])
    try:
        program = load(io.BytesIO(bytes(file)))
    except RuntimeError as error:
        assert str(error).startswith("load: ")
    else:
        assert str(program) == str(example[2])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_edited_texts_are_an_error_or_a_program(example, data):
    """Words and numbers exchanged in the graph and the signature, with right checksums: loading fails with one kind of
    error, and what it takes runs or raises, but does no harm.
    """
    name = data.draw(st.sampled_from(["graph.txt", "signature.json"]))

    def edit(source):
        words = source.decode().replace("(", " ( ").replace(",", " , ").split(" ")
        at = data.draw(st.integers(0, len(words) - 1))
        words[at] = data.draw(st.sampled_from([*words, "0", "-1", "99999999999", "null", "v0", "as_strided", "{}"]))
        return " ".join(words).replace(" ( ", "(").replace(" , ", ",").encode()

    try:
        program = load(io.BytesIO(edited(stored(example[2]), {name: edit})))
    except RuntimeError as error:
        assert str(error).startswith("load: ")
        return
    try:
        args, kwargs = program.example_inputs
        program.module()(*args, **kwargs)
    except Exception as error:
        assert not isinstance(error, (SystemError, MemoryError))


@pytest.mark.parametrize(("size", "offset"), [(1_000_000, 0), (2, 1_000_000)])
def test_operations_that_a_model_would_not_use_stay_in_bounds(size, offset):
    """A file may hold any operation: this one looks at memory beyond its tensor, if nobody checks."""
    program = stored(export(lambda x: x + 1, (rushlight.ones(4),)))
    call = f"as_strided(v0, size=({size},), stride=(1,), storage_offset={offset}, own_offset=0)"
    source = f"graph(v0: float32[4] grad):\n  v1 = {call}  # float32[{size}] grad\n  return v1\n"
    run = load(io.BytesIO(edited(program, {"graph.txt": lambda _: source.encode()}))).module()
    with pytest.raises(RuntimeError, match="out of bounds"):
        run(rushlight.ones(4))


@pytest.mark.parametrize("name", ["x=print()", "x: print()", "x y", "lambda", ""])
def test_names_of_values_are_no_code(name):
    """`graph_module` makes Python code with these names."""
    program = stored(export(lambda x, y: y + 1, (rushlight.ones(2), rushlight.ones(2))))

    def edit(source):
        signature = json.loads(source)
        signature["inputs"][0]["name"] = name
        return json.dumps(signature).encode()

    with pytest.raises(RuntimeError, match="no name of a value"):
        load(io.BytesIO(edited(program, {"signature.json": edit})))
    named = {"class": rushlight.ones(2), "a\u00b2": rushlight.ones(2)}
    strange = export(lambda **x: x["class"] + x["a\u00b2"], (), named)
    assert load(io.BytesIO(stored(strange))).graph_module is not None


def test_small_files_do_not_become_large_programs():
    """Graphs that each call the next one twice, sizes that are powers of sums, and sizes of sizes: 2 ** 60 of each."""
    first = "  v1 = gt(v0, 0)  # bool[1]\n  v2 = any(v1, dim=(0,), keepdim=False, dtype=bool)  # bool[]\n"
    graphs = [f"(v0: float32[1]):\n{first}  v3 = cond(v2, v0, true_fn=g{k}, false_fn=g{k})  # float32[1]\n  return v3\n"
              for k in range(1, 61)]
    source = "".join([f"graph{f' g{k}' if k else ''}{body}" for k, body in enumerate(
        [*graphs, "(v0: float32[1]):\n  return v0\n"])])
    with pytest.raises(ValueError, match="cannot read"):
        read_graph(source)
    for operand in ("-" * 100_000 + "1", "(" * 5000 + "1" + ")" * 5000):
        with pytest.raises((ValueError, SyntaxError), match="too many"):
            read_graph(f"graph(v0: float32[1]):\n  v1 = add(v0, {operand})  # float32[1]\n  return v1\n")
    with pytest.raises(ValueError, match="nothing calls"):
        read_graph("graph(v0: float32[1]):\n  return v0\ngraph g1(v0: float32[1]):\n  return v0\n")
    atom = {"name": "n", "example": 2, "least": 0, "most": None, "low": 0, "high": None}
    facts = facts_from_json({"atoms": [atom, atom | {"name": "k"}], "guards": []})
    with pytest.raises(ValueError, match="no size"):
        reader(facts)("*".join(["(n + k)"] * 60))
    atoms = [atom, *[atom | {"name": f"n{k}", "parts": ["//", [[[k, k], 1]], [[[], 1]]]} for k in range(60)]]
    with pytest.raises(ValueError, match="steps"):
        facts_from_json({"atoms": atoms, "guards": []})


def test_files_of_the_first_format_are_read():
    program = export(lambda x: x + x.sum(), (rushlight.ones(3),), dynamic_shapes=({0: Dim("n", min=1)},))

    def older(source):
        signature = json.loads(source)
        signature["ones"] = [list(values) for values in signature.pop("small")]
        return json.dumps(signature | {"format": 1}).encode()

    found = load(io.BytesIO(edited(stored(program), {"signature.json": older})))
    assert found.small == program.small != frozenset() and str(found) == str(program)
    assert found.module()(rushlight.ones(1)).tolist() == [2.0]
