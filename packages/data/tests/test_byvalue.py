"""Functions and classes that are sent by value."""

import abc
import collections
import dataclasses
import io
import math
import pickle
import sys
import types

import pytest

from rushlight.utils.data import byvalue
from rushlight.utils.data.byvalue import ByValuePickler

SOURCE = """
import abc, collections, dataclasses, enum, functools, math
from typing import Generic, TypeVar
T = TypeVar("T")
offset = 10
unused = lock

def shifted(value):
    return value + offset

def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

class Base(abc.ABC):
    @abc.abstractmethod
    def run(self): ...

class Child(Base):
    count = 0
    def __init__(self, value):
        super().__init__()
        self.value = value
    def run(self):
        return shifted(self.value), [math.sqrt(v) for v in (4, 9)], type(self) is Child
    @property
    def twice(self):
        return 2 * self.value
    @staticmethod
    def plain(value):
        return shifted(value)
    @classmethod
    def make(cls, value):
        return cls(value)

class Slotted(Generic[T]):
    __slots__ = ("a",)
    def __init__(self, a):
        self.a = a

@dataclasses.dataclass
class Data:
    x: int
    y: list = dataclasses.field(default_factory=list)

Color = enum.Enum("Color", ["RED", "BLUE"])
Pair = collections.namedtuple("Pair", ["a", "b"], defaults=[5])

def counter():
    count = 0
    def up(step=1, *, scale=1):
        nonlocal count
        count += step * scale
        return count
    def read():
        return count
    return up, read
"""


@pytest.fixture
def main(monkeypatch):
    """A main script, which is gone when something from it is loaded."""
    script = types.ModuleType("__main__")
    script.lock = __import__("threading").Lock()
    monkeypatch.setitem(byvalue.sys.modules, "__main__", script)
    exec(SOURCE, vars(script))

    def send(obj):
        file = io.BytesIO()
        ByValuePickler(file, 5).dump(obj)
        monkeypatch.setitem(byvalue.sys.modules, "__main__", types.ModuleType("__main__"))
        return pickle.loads(file.getvalue())

    script.send = send
    return script


def test_function_with_globals_and_itself(main):
    assert main.send(main.shifted)(1) == 11


def test_recursive_function(main):
    assert main.send(main.fibonacci)(10) == 55


def test_class_with_bases_members_and_super(main):
    child = main.send(main.Child(5))
    assert child.run() == (15, [2.0, 3.0], True)
    assert child.twice == 10
    assert child.plain(1) == 11
    assert child.make(3).value == 3
    assert isinstance(child, abc.ABC)
    with pytest.raises(TypeError, match="abstract"):
        type(child).__bases__[0]()


def test_slots_and_generic(main):
    copy = main.send(main.Slotted(4))
    assert copy.a == 4
    assert not hasattr(copy, "__dict__")


def test_dataclass(main):
    copy = main.send(main.Data(1))
    assert dataclasses.asdict(copy) == {"x": 1, "y": []}
    assert dataclasses.replace(copy, x=2).x == 2


def test_enum_and_namedtuple(main):
    color, pair = main.send((main.Color.BLUE, main.Pair(1)))
    assert color.name == "BLUE"
    assert pair == (1, 5)
    assert pair._fields == ("a", "b")


def test_closures_share_their_cell(main):
    up, read = main.send(main.counter())
    assert up() == 1
    assert up(2, scale=3) == 7
    assert read() == 7


def test_instance_goes_back_by_name(main):
    child = main.send(main.Child(5))
    back = pickle.dumps(child)
    byvalue.sys.modules["__main__"] = main
    assert type(pickle.loads(back)) is main.Child


def test_instance_of_a_module_in_packages_goes_back(monkeypatch):
    names = ["no_such_package", "no_such_package.inner", "no_such_package.inner.module"]
    script = types.ModuleType(names[-1])
    monkeypatch.setitem(sys.modules, names[-1], script)
    exec("class Point:\n    pass", vars(script))
    file = io.BytesIO()
    ByValuePickler(file, 5).dump(script.Point())
    del sys.modules[names[-1]]
    try:
        point = pickle.loads(file.getvalue())
        assert type(pickle.loads(pickle.dumps(point))) is type(point)
    finally:
        for name in names:
            sys.modules.pop(name, None)


def test_importable_things_go_by_name():
    file = io.BytesIO()
    ByValuePickler(file, 5).dump(
        [math.sqrt, collections.OrderedDict, io.BytesIO, int, type(None), types.CellType, math]
    )
    assert pickle.loads(file.getvalue())[:4] == [math.sqrt, collections.OrderedDict, io.BytesIO, int]
    assert len(file.getvalue()) < 300


def test_lambda_of_an_importable_module_uses_its_module():
    function = byvalue._REDUCERS[property]
    file = io.BytesIO()
    ByValuePickler(file, 5).dump(function)
    copy = pickle.loads(file.getvalue())
    assert copy is not function
    assert copy.__globals__ is vars(byvalue)
