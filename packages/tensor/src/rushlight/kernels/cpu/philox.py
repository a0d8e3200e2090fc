"""Philox4x32-10, the counter-based random generator, on whole arrays.

Counter i and the seed give four 32-bit words by ten rounds of multiplication, without any state: an element of a random
tensor depends on (seed, offset, its index) only, so chunks may be computed on any thread, and on any device, in any
order.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from rushlight.core.native import installed
from rushlight.kernels.cpu import allocator, pool
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.native import WORTH

BLOCK = 8192  # counters at a time: the intermediate arrays stay in the second-level cache

# Two of the four words are multiplied in each round; they are kept as the rows of one array, so that a round is one
# multiplication and two exclusive ors.
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)  # what the key grows by from round to round
_LOW = 0xFFFFFFFF


@functools.lru_cache(maxsize=64)
def _round_keys(seed: int) -> list[np.ndarray]:
    """The key of each round: a column of two words."""
    key = np.array([[seed & _LOW], [seed >> 32 & _LOW]], np.uint64)
    return [((key + _WEYL * np.uint64(i)) & np.uint64(_LOW)).astype(np.uint32) for i in range(10)]


def block_words(seed: int, first: int, count: int) -> np.ndarray:
    """The words of `count` counters from `first` on, shape (count, 4)."""
    counter = np.arange(count, dtype=np.uint64)
    counter += np.uint64(first & 0xFFFFFFFFFFFFFFFF)
    halves = counter.view(np.uint32)
    factors, others = np.zeros((2, count), np.uint32), np.zeros((2, count), np.uint32)  # words 0 and 2, words 1 and 3
    factors[0], others[0] = halves[::2], halves[1::2]
    products = np.empty((2, count), np.uint64), np.empty((2, count), np.uint64)
    mixed = np.empty((2, count), np.uint32)
    for i, key in enumerate(_round_keys(seed)):
        # The low halves of one round's products are operands of the next, so the rounds alternate between two arrays.
        product = products[i & 1]
        np.multiply(factors, _MULTIPLIERS, out=product)
        low_high = product.view(np.uint32)
        np.bitwise_xor(low_high[::-1, 1::2], others, out=mixed)
        np.bitwise_xor(mixed, key, out=mixed)
        factors, others = mixed, low_high[::-1, ::2]
    words = np.empty((count, 4), np.uint32)
    words[:, ::2], words[:, 1::2] = factors.T, others.T
    return words


# The same in native code. `layout` holds the first counter and the keys of all rounds.
_NATIVE = "def kernel(lo, hi, layout, words):\n    wide_vectors()\n    first = u64(load(layout, u64(0)))\n"
_NATIVE += "".join([f"    k{i} = u64(load(layout, u64({i + 1})))\n" for i in range(20)])
_NATIVE += """    for i in range(lo, hi):
        counter = first + u64(i)
        c0 = counter & u64(0xFFFFFFFF)
        c1 = counter >> u64(32)
        c2 = u64(0)
        c3 = u64(0)
"""
for _i in range(10):
    _NATIVE += f"""        p = c0 * u64(0xD2511F53)
        q = c2 * u64(0xCD9E8D57)
        c0 = (q >> u64(32)) ^ c1 ^ k{2 * _i}
        c1 = q & u64(0xFFFFFFFF)
        c2 = (p >> u64(32)) ^ c3 ^ k{2 * _i + 1}
        c3 = p & u64(0xFFFFFFFF)
"""
_NATIVE += """        at = u64(4) * u64(i)
        store(words, at, u32(c0))
        store(words, at + u64(1), u32(c1))
        store(words, at + u64(2), u32(c2))
        store(words, at + u64(3), u32(c3))
"""


class _Native:
    """The compiled kernel, once a large draw has asked for it, or native calls; small draws then use it, too."""

    kernel: Callable[..., None] | None = None


@functools.lru_cache(maxsize=64)
def _native_layout(seed: int) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.uint32), *[key[:, 0] for key in _round_keys(seed)]]).astype(np.int64)


def native_words(seed: int, first: int, count: int) -> np.ndarray:
    """What `block_words` gives, from compiled code: ten times as fast."""
    kernel = _Native.kernel
    if kernel is None:
        kernel = _Native.kernel = compile_source(_NATIVE, ("u64", "u64", "*i64", "*u32"))
    layout = _native_layout(seed).copy()
    layout.view(np.uint64)[0] = first & 0xFFFFFFFFFFFFFFFF
    words = np.empty((count, 4), np.uint32)
    kernel(0, count, layout, words)
    return words


# Draws of up to so many elements come from a stock of `STOCK` counters' worth, drawn ahead: ten rounds on arrays cost
# 60 us for 4 counters, 90 for 1024 and 210 for 4096. So the stock of a program that goes on drawing is `LARGE_STOCK`.
SMALL = 2048
STOCK, LARGE_STOCK = 1024, 4096
# By conversion and dtype: (seed, first counter, how many elements, these). What a counter gives does not depend on when
# it is asked.
STOCKS: dict[tuple[Callable, np.dtype], tuple[int | None, int, int, np.ndarray]] = {}
NO_STOCK = (None, 0, -1, np.empty(0))


def generate(seed: int, offset: int, n: int, dtype: np.dtype, words_each: int, convert: Callable) -> np.ndarray:
    """A vector of n random elements.

    `convert(words, out)` fills a stretch of it from its words, `words_each` per element.
    """
    if n > SMALL:
        return _generate(seed, offset, n, dtype, words_each, convert)
    return few(seed, offset, n, dtype, words_each, convert).copy()


def few(seed: int, offset: int, n: int, dtype: np.dtype, words_each: int, convert: Callable) -> np.ndarray:
    """The same for up to `SMALL` elements, which must not be written to."""
    have_seed, first, last, elements = STOCKS.get((convert, dtype)) or NO_STOCK
    start = (offset - first) * (4 // words_each)
    if have_seed != seed or not 0 <= start <= last - n:
        start, elements = 0, restocked(seed, offset, dtype, words_each, convert)
    return elements[start : start + n]


def restocked(seed: int, offset: int, dtype: np.dtype, words_each: int, convert: Callable) -> np.ndarray:
    """The elements of a new stock that begins with a counter."""
    have_seed, first, last, _ = STOCKS.get((convert, dtype)) or NO_STOCK
    goes_on = have_seed == seed and last - SMALL < (offset - first) * (4 // words_each) <= last
    counters = LARGE_STOCK if goes_on else STOCK
    elements = _generate(seed, offset, counters * (4 // words_each), dtype, words_each, convert)
    if len(STOCKS) > 64:  # every range of integers has a conversion of its own
        STOCKS.clear()
    STOCKS[convert, dtype] = (seed, offset, elements.size, elements)
    return elements


def _generate(seed: int, offset: int, n: int, dtype: np.dtype, words_each: int, convert: Callable) -> np.ndarray:
    per_counter = 4 // words_each
    counters = -(-n // per_counter)
    result = allocator.empty((n,), dtype)
    compiled = counters >= WORTH or _Native.kernel or installed()
    words_of = native_words if compiled else block_words

    def fill(low: int, high: int) -> None:
        for first in range(low * BLOCK, min(high * BLOCK, counters), BLOCK):
            count = min(BLOCK, counters - first)
            words = words_of(seed, offset + first, count).reshape(-1)
            stretch = result[first * per_counter : (first + count) * per_counter]
            if stretch.size == count * per_counter:
                convert(words, stretch)
            else:  # the last counter gives more than is needed
                whole = np.empty(count * per_counter, dtype)
                convert(words, whole)
                stretch[...] = whole[: stretch.size]

    if counters <= BLOCK:
        fill(0, 1)
    else:
        pool.parallel_for(fill, -(-counters // BLOCK), 1)
    return result


# Words to numbers


def uniform32(words: np.ndarray, out: np.ndarray) -> None:
    """float32 in [0, 1): 24 bits of a word each."""
    np.right_shift(words, np.uint32(8), out=words)
    np.multiply(words, np.float32(2**-24), out=out, dtype=np.float32, casting="unsafe")


def uniform64(words: np.ndarray, out: np.ndarray) -> None:
    """float64 in [0, 1): 53 bits of two words each."""
    pairs = words.view(np.uint64)
    np.right_shift(pairs, np.uint64(11), out=pairs)
    np.multiply(pairs, 2.0**-53, out=out, casting="unsafe")


@functools.lru_cache(maxsize=64)
def uniform_half(bits: int) -> Callable:
    """Numbers in [0, 1) of a half type with so many significant bits; fewer would be lost to rounding,
    up to 1.0 itself.
    """

    def convert(words: np.ndarray, out: np.ndarray) -> None:
        np.right_shift(words, np.uint32(32 - bits), out=words)
        out[...] = words * np.float32(2.0**-bits)

    return convert


def normal32(words: np.ndarray, out: np.ndarray) -> None:
    """float32 from the standard normal distribution, in pairs (Box and Muller, 1958)."""
    words >>= np.uint32(8)
    _box_muller(words.astype(np.float32), out, np.float32(2**-24))


def normal64(words: np.ndarray, out: np.ndarray) -> None:
    """float64 from the standard normal distribution, in pairs (Box and Muller, 1958)."""
    pairs = words.view(np.uint64)
    pairs >>= np.uint64(11)
    _box_muller(pairs.astype(np.float64), out, np.float64(2.0**-53))


def _box_muller(uniform: np.ndarray, out: np.ndarray, scale: np.floating) -> None:
    kind = type(scale)
    radius = (uniform[::2] + kind(1)) * scale  # in (0, 1]: the logarithm is finite
    np.log(radius, out=radius)
    radius *= kind(-2)
    np.sqrt(radius, out=radius)
    angle = uniform[1::2] * (kind(2 * np.pi) * scale)
    np.multiply(np.cos(angle), radius, out=out[::2], casting="unsafe")
    np.sin(angle, out=angle)
    np.multiply(angle, radius, out=out[1::2], casting="unsafe")


@functools.lru_cache(maxsize=64)
def whole32(low: int, span: int) -> Callable:
    """Integers in [low, low + span) from a word each; the bias is at most span / 2^32."""

    def convert(words: np.ndarray, out: np.ndarray) -> None:
        scaled = np.multiply(words, np.uint64(span), dtype=np.uint64)
        scaled >>= np.uint64(32)
        np.add(scaled.view(np.int64), low, out=out, casting="unsafe")

    return convert


@functools.lru_cache(maxsize=64)
def whole64(low: int, span: int) -> Callable:
    """Integers in [low, low + span) from two words each; the bias is at most span / 2^64."""

    def convert(words: np.ndarray, out: np.ndarray) -> None:
        pairs = words.view(np.uint64)
        rest = pairs if span == 1 << 64 else pairs % np.uint64(span)
        rest += np.uint64(low & 0xFFFFFFFFFFFFFFFF)  # wraps around, as two's complement does
        out[...] = rest.astype(out.dtype)

    return convert
