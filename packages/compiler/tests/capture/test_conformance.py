"""Pure Python of the standard library, interpreted: the same result as running it, or no capture; never something
else."""

from __future__ import annotations

import bisect
import calendar
import collections
import colorsys
import copy
import difflib
import dis
import fnmatch
import fractions
import functools
import graphlib
import heapq
import html
import ipaddress
import json
import keyword
import ntpath
import operator
import posixpath
import pprint
import shlex
import statistics
import string
import textwrap

import pytest

from rushlight.compiler.capture.capture import MISS, Abort, capture
from rushlight.compiler.capture.frame import HANDLERS


def order(edges):
    return list(graphlib.TopologicalSorter(edges).static_order())


def sieve(n):
    numbers = list(range(2, n))
    primes = []
    while numbers:
        first = numbers.pop(0)
        primes.append(first)
        numbers = [x for x in numbers if x % first]
    return primes


def words(text):
    counts = {}
    for word in text.lower().split():
        word = word.strip(".,;!")
        counts[word] = counts.get(word, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def hanoi(n, a="a", b="b", c="c"):
    if n == 0:
        return []
    return [*hanoi(n - 1, a, c, b), (a, c), *hanoi(n - 1, b, a, c)]


def permutations(items):
    if not items:
        yield []
    for i, item in enumerate(items):
        for rest in permutations(items[:i] + items[i + 1:]):
            yield [item, *rest]


def collect(items):
    return list(permutations(items))


def matrix_product(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def queens(n):
    found = []

    def place(row, columns):
        if row == n:
            found.append(tuple(columns))
            return
        for c in range(n):
            if all(c != k and abs(c - k) != row - r for r, k in enumerate(columns)):
                columns.append(c)
                place(row + 1, columns)
                columns.pop()

    place(0, [])
    return found


class Stack:
    """A class with state, operators and properties."""

    limit = 3

    def __init__(self, *items):
        self._items = list(items)

    @property
    def top(self):
        return self._items[-1]

    def push(self, item):
        if len(self) == self.limit:
            raise OverflowError("full")
        self._items.append(item)
        return self

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        yield from reversed(self._items)

    def __eq__(self, other):
        return self._items == other._items

    __hash__ = None


def use_stack(n):
    stack = Stack(0)
    log = []
    try:
        for i in range(n):
            stack.push(i)
    except OverflowError as error:
        log.append(type(error).__name__)
    finally:
        log.append(len(stack))
    return log, list(stack), stack.top, stack == Stack(0), bool(stack)


def strings(text):
    return (text.title(), text[::-1], text.replace("a", "b"), f"{text:>10}|{len(text):x}", text * 2,
            text.partition(" "),
            [c for c in text if c.isalpha()], text.count("a"))


CASES = [
    (heapq.nsmallest, (3, [5, 1, 4, 2])), (heapq._siftdown, ([1, 2, 0], 0, 2)), (list, ([1, 2],)),
    (colorsys.rgb_to_hsv, (0.2, 0.4, 0.4)), (colorsys.hls_to_rgb, (0.5, 0.3, 0.2)),
    (colorsys.rgb_to_yiq, (0.5, 0.3, 0.2)),
    (calendar.isleap, (2000,)), (calendar.leapdays, (1990, 2030)), (calendar.monthrange, (2024, 2)),
    (posixpath.join, ("a", "b/c", "/d", "e")), (posixpath.normpath, ("a/../b//c",)), (posixpath.split, ("/a/b",)),
    (posixpath.splitext, ("a.b.c",)), (posixpath.commonprefix, (["abc", "abd"],)),
    (posixpath.relpath, ("/a/b", "/a/c")),
    (ntpath.join, ("c:\\a", "b")), (ntpath.splitdrive, ("c:\\a",)), (fnmatch.translate, ("*.py[co]",)),
    (statistics.mean, ([1, 2, 3, 4],)), (statistics.median, ([3, 1, 2],)), (statistics.mode, ([1, 1, 2],)),
    (statistics.fmean, ([1.0, 2.5],)), (statistics.median_low, ([1, 3, 5, 7],)),
    (textwrap.dedent, ("  a\n  b\n",)), (textwrap.indent, ("a\nb", "> ")), (string.capwords, ("ab cd",)),
    (bisect.bisect_left, ([1, 2, 3], 2)), (copy.copy, ([1, 2],)), (copy.deepcopy, ([1, [2, 3]],)),
    (functools.reduce, (operator.add, [1, 2, 3])), (order, ({"a": ["b"], "b": ["c"]},)), (sieve, (40,)),
    (words, ("the cat. The dog, the end",)), (hanoi, (4,)), (collect, ([1, 2, 3],)),
    (matrix_product, ([[1, 2], [3, 4]], [[5, 6], [7, 8]])),
    (difflib.SequenceMatcher.ratio, (difflib.SequenceMatcher(None, "abcd", "bcde"),)),
    (difflib.get_close_matches, ("appel", ["ape", "apple", "peach"])), (json.dumps, ({"a": [1, 2.5, None, "é"]},)),
    (json.encoder.py_encode_basestring_ascii, ('a"b',)), (json.JSONEncoder().encode, ([1, {"k": True}],)),
    (statistics.quantiles, ([1.0, 2.0, 3.0, 4.0],)), (statistics.pstdev, ([1.0, 2.0, 4.0],)),
    (statistics.correlation, ([1.0, 2.0, 3.0], [1.0, 2.0, 2.5])), (statistics.harmonic_mean, ([2.0, 3.0],)),
    (textwrap.shorten, ("one two three", 9)), (textwrap.wrap, ("one two three four", 8)),
    (heapq.merge, ([1, 4], [2, 3])), (heapq.nlargest, (2, [5, 1, 4])), (bisect.insort, ([1, 3], 2)),
    (shlex.quote, ("a b",)), (shlex.split, ("a 'b c'",)), (fractions.Fraction.limit_denominator,
                                                          (fractions.Fraction(31, 100), 7)),
    (collections.Counter.most_common, (collections.Counter("abca"),)), (html.escape, ("<a&b>",)),
    (keyword.iskeyword, ("for",)), (string.Template("$a-$b").substitute, ({"a": 1, "b": 2},)),
    (pprint.pformat, ([1, {"a": (2,)}],)), (ipaddress.IPv4Address._ip_int_from_string, ("1.2.3.4",)),
    (queens, (5,)), (use_stack, (2,)), (use_stack, (9,)), (strings, ("banana split",)),
]


def fields(args):
    """Arguments as they can be compared."""
    return [vars(x) if type(x).__eq__ is object.__eq__ and hasattr(x, "__dict__") else x for x in args]


@pytest.mark.parametrize("fn, args", CASES,
                         ids=[f"{getattr(f, '__module__', '')}.{f.__name__}-{i}" for i, (f, _) in enumerate(CASES)])
def test_same_as_native(fn, args):
    native_args, interpreted_args = copy.deepcopy(args), copy.deepcopy(args)
    expected = fn(*native_args)
    try:
        entry = capture(fn, interpreted_args, {}, lambda *_: None, {}, fn)
    except Abort:
        return
    assert fields(interpreted_args) == fields(args), "a dry run changed its arguments"
    result = entry.run(interpreted_args, {})
    assert result is not MISS
    assert repr(result) == repr(expected)
    assert fields(interpreted_args) == fields(native_args)


def test_most_of_our_own_programs_are_captured():
    for fn, args in CASES:
        if fn.__module__ == __name__ and fn is not order:
            capture(fn, args, {}, lambda *_: None, {}, fn)


ABORTING = {
    "BEFORE_ASYNC_WITH", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE", "END_ASYNC_FOR", "ASYNC_GEN_WRAP", "CHECK_EG_MATCH",
    "PREP_RERAISE_STAR", "IMPORT_STAR", "PRINT_EXPR", "LOAD_BUILD_CLASS", "LOAD_CLASSDEREF", "LOAD_NAME", "STORE_NAME",
    "DELETE_NAME",
    "SETUP_ANNOTATIONS", "CALL_INTRINSIC_2",
    "CLEANUP_THROW",
    "LOAD_LOCALS", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "RESERVED", "INTERPRETER_EXIT",
    "ENTER_EXECUTOR",
    "EXIT_INIT_CHECK", "EXTENDED_ARG",
}


def test_every_instruction_is_handled_or_listed():
    names = {name for name, number in dis.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")}
    assert names - set(HANDLERS) - ABORTING == set()
    assert not set(HANDLERS) & ABORTING
