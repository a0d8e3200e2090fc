"""numpy functions for Fourier transforms, matrices, order statistics and random numbers. Their source is copied into
the files that use them.

Arguments are those of the ops of the same names; of a draw, `first` is its first counter.
"""

from __future__ import annotations

import numpy as np

from rushlight.compiler.standalone.helpers import columns

# Fourier transforms: results are divided by a power of the number of elements


def scaled(x, dims, shape, scaling, dtype):
    """The values divided by a power of the number of elements along dimensions."""
    return (x / np.prod([shape[d] for d in dims], dtype=np.float64) ** scaling).astype(dtype)


def fft_c2c(z, dims, scaling, forward):
    """The transform of complex numbers over dimensions."""
    found = np.fft.fftn(z, axes=dims) if forward else np.fft.ifftn(z, axes=dims, norm="forward")
    return scaled(found, dims, z.shape, scaling, z.dtype)


def fft_r2c(x, dims, scaling):
    """The transform of real numbers, the last dimension up to the middle frequency."""
    return scaled(np.fft.rfftn(x, axes=dims), dims, x.shape, scaling, np.result_type(x.dtype, np.complex64))


def fft_c2r(z, dims, scaling, size):
    """The transform back to real numbers, of which there are `size` along the last dimension."""
    *rest, last = dims
    shape = [size if d == last % z.ndim else n for d, n in enumerate(z.shape)]
    whole = np.fft.ifftn(z, axes=rest, norm="forward") if rest else z
    return scaled(np.fft.irfft(whole, size, last, norm="forward"), dims, shape, scaling, z.real.dtype)


# matrices


def cholesky(x, check):
    """The triangular factor, and how many matrices failed: none, as numpy raises LinAlgError."""
    return np.linalg.cholesky(x), np.zeros(x.shape[:-2], np.int32)


def qr(x, mode):
    """The orthogonal and the triangular factor; the former is empty in the mode `r`."""
    return (np.empty(0, x.dtype), np.linalg.qr(x, "r")) if mode == "r" else tuple(np.linalg.qr(x, mode))


def solve_triangular(a, b, upper, unitriangular):
    """The solution of equations with the upper or lower triangle of `a`."""
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = np.where(np.eye(a.shape[-1], dtype=bool), np.ones((), a.dtype), a)
    return np.linalg.solve(a, b)


def vector_norm(x, dim, keepdim, order):
    """The norm of what lies along dimensions."""
    size = np.abs(x)
    if order == np.inf:
        return size.max(axis=dim, keepdims=keepdim)
    if order == -np.inf:
        return size.min(axis=dim, keepdims=keepdim)
    if order == 0:
        return np.sum(size != 0, axis=dim, keepdims=keepdim).astype(size.dtype)
    if order == 1:
        return np.sum(size, axis=dim, keepdims=keepdim)
    if order == 2:
        return np.sqrt(np.sum(size * size, axis=dim, keepdims=keepdim))
    return (np.sum(size ** order, axis=dim, keepdims=keepdim) ** (1 / order)).astype(size.dtype)


# windows of images (N, C, *size)


def window_mean(x, windows):
    """The mean of each window, over one dimension after the other."""
    for d, spans in enumerate(windows, 2):
        x = np.stack([x.take(range(start, end), d).mean(d) for start, end in spans], d).astype(x.dtype)
    return x


def window_max(x, windows):
    """The largest element of each window, and its position in its plane."""
    counts = [len(spans) for spans in windows]
    values = np.empty((*x.shape[:2], *counts), x.dtype)
    places = np.empty(values.shape, np.int64)
    at = np.arange(int(np.prod(x.shape[2:]))).reshape(x.shape[2:])
    for place in np.ndindex(*counts):
        cut = tuple([slice(*spans[i]) for spans, i in zip(windows, place)])
        flat = x[(slice(None), slice(None), *cut)].reshape(*x.shape[:2], -1)
        best = flat.argmax(-1)  # of NaN the first, as numpy takes it for the largest
        values[(slice(None), slice(None), *place)] = np.take_along_axis(flat, best[..., None], -1)[..., 0]
        places[(slice(None), slice(None), *place)] = at[cut].reshape(-1)[best]
    return values, places


def im2col(x, kernel, dilation, padding, stride):
    """Windows as columns: (N, C * kernel, places)."""
    rows, places = columns(x, kernel, stride, padding, dilation, 1)
    return rows.reshape(len(x), int(np.prod(places)), rows.shape[2]).swapaxes(1, 2)


def col2im(x, size, kernel, dilation, padding, stride):
    """Columns added up where their windows lie."""
    room = [n + 2 * p for n, p in zip(size, padding)]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(room, kernel, dilation, stride)]
    parts = x.reshape(len(x), -1, *kernel, *counts)
    result = np.zeros((len(x), parts.shape[1], *room), x.dtype)
    for place in np.ndindex(*kernel):
        cut = [slice(i * d, i * d + (c - 1) * s + 1, s) for i, d, c, s in zip(place, dilation, counts, stride)]
        result[(slice(None), slice(None), *cut)] += parts[(slice(None), slice(None), *place)]
    return result[(slice(None), slice(None), *[slice(p, p + n) for p, n in zip(padding, size)])]


# order


def kthvalue(x, k, dim):
    """The position of the k-th smallest element; NaN counts as the largest number."""
    return np.argsort(x, dim, kind="stable").take([k - 1], dim) if x.ndim else np.zeros((), np.int64)


def median(x, dim, keepdim):
    """The element in the middle, the lower one of two; NaN where there is one."""
    rest = [d for d in range(x.ndim) if d not in dim]
    flat = np.sort(x.transpose(*rest, *dim).reshape(*[x.shape[d] for d in rest], -1), -1)
    found = flat[..., (flat.shape[-1] - 1) // 2]
    found = np.where(flat[..., -1] != flat[..., -1], flat[..., -1], found)
    return found.reshape([1 if d in dim else n for d, n in enumerate(x.shape)]) if keepdim else found


def running(x, dim, largest):
    """The positions of the extremes so far, the last one of equals."""
    best = (np.maximum if largest else np.minimum).accumulate(x, dim)
    places = np.arange(x.shape[dim]).reshape([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)])
    return np.maximum.accumulate(np.where((x == best) | (x != x), places, 0), dim)


# places


def slice_backward(grad, start, dim, size, step):
    """Zeros, with what was cut out put back."""
    shape = [size if d == dim % grad.ndim else n for d, n in enumerate(grad.shape)]
    result = np.zeros(shape, grad.dtype)
    np.moveaxis(result, dim, 0)[start:start + grad.shape[dim] * step:step] = np.moveaxis(grad, dim, 0)
    return result


def diagonal_backward(grad, shape, offset, dim1, dim2):
    """Zeros, with a diagonal put back."""
    result = np.zeros(shape, grad.dtype)
    moved = np.moveaxis(result, (dim1, dim2), (-2, -1))
    i = np.arange(grad.shape[-1])
    moved[..., i + max(-offset, 0), i + max(offset, 0)] = grad
    return result


def from_planes(x, indices):
    """The elements at positions in their planes."""
    flat = [array.reshape(*array.shape[:2], -1) for array in (x, indices)]
    return np.take_along_axis(*flat, 2).reshape(indices.shape)


def planes(values, indices, size, add):
    """Zeros, with values at positions in their planes."""
    result = np.zeros((*values.shape[:2], int(np.prod(size))), values.dtype)
    flat, index = [array.reshape(*array.shape[:2], -1) for array in (values, indices)]
    place = (*np.indices(flat.shape)[:2], index)
    if add:
        np.add.at(result, place, flat)
    else:
        result[place] = flat
    return result.reshape(*values.shape[:2], *size)


def masked_scatter(x, mask, source):
    """A copy of `x` in which the elements where the mask holds are those of `source`, in order."""
    result = x.copy()
    mask = np.broadcast_to(mask, x.shape)
    result[mask] = source.reshape(-1)[:np.count_nonzero(mask)]
    return result


# random numbers: those of rushlight for the same seed and counters


def random_words(seed, first, count):
    """Four words of 32 bits for each of `count` counters: Philox4x32-10 (Salmon et al., 2011)."""
    low = np.uint64(0xFFFFFFFF)
    counter = np.arange(count, dtype=np.uint64) + np.uint64(first & (2 ** 64 - 1))
    a, b, c, d = counter & low, counter >> np.uint64(32), np.zeros_like(counter), np.zeros_like(counter)
    for i in range(10):
        k0, k1 = [np.uint64(seed + w * i & 0xFFFFFFFF) for seed, w in
                  ((seed & 0xFFFFFFFF, 0x9E3779B9), (seed >> 32 & 0xFFFFFFFF, 0xBB67AE85))]
        p, q = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = q >> np.uint64(32) ^ b ^ k0, q & low, p >> np.uint64(32) ^ d ^ k1, p & low
    return np.stack((a, b, c, d), 1).astype(np.uint32)


def random_bits(seed, first, count, bits):
    """So many random whole numbers of 32 or 64 bits."""
    each = 128 // bits
    words = random_words(seed, first, -(-count // each)).reshape(-1)
    return words.view(np.uint64) if bits == 64 else words


def random_floats(seed, first, count, kept):
    """So many whole numbers of `kept` random bits, as floats that have place for them."""
    bits, wide = (64, np.float64) if kept == 53 else (32, np.float32)
    found = random_bits(seed, first, count, bits)[:count] >> np.array(bits - kept, f"u{bits // 8}")
    return found.astype(wide)


def rand(seed, first, shape, dtype):
    """Uniform numbers in [0, 1)."""
    kept = {"f2": 11, "f4": 24, "f8": 53}[np.dtype(dtype).str[1:]]
    found = random_floats(seed, first, int(np.prod(shape)), kept)
    return (found * found.dtype.type(2.0 ** -kept)).astype(dtype).reshape(shape)


def randn(seed, first, shape, dtype):
    """Standard normal numbers, in pairs (Box and Muller, 1958)."""
    count, kept = int(np.prod(shape)), 53 if dtype == np.float64 else 24
    uniform = random_floats(seed, first, count + count % 2, kept)
    wide = uniform.dtype.type
    scale = wide(2.0 ** -kept)
    radius = np.sqrt(np.log((uniform[::2] + wide(1)) * scale) * wide(-2))
    angle = uniform[1::2] * (wide(2 * np.pi) * scale)
    pairs = np.stack((np.cos(angle) * radius, np.sin(angle) * radius), 1)
    return pairs.reshape(-1)[:count].astype(dtype).reshape(shape)


def rand_between(seed, first, a, b, shape, dtype):
    """Uniform numbers in [a, b)."""
    found = rand(seed, first, shape, dtype) * np.array(b - a, dtype) + np.array(a, dtype)
    return np.where(found >= b, np.array(a, dtype), found)


def randn_scaled(seed, first, a, b, shape, dtype):
    """Normal numbers with mean a and standard deviation b."""
    return randn(seed, first, shape, dtype) * np.array(b, dtype) + np.array(a, dtype)


def randint(seed, first, low, high, shape, dtype):
    """Whole numbers in [low, high)."""
    count, span = int(np.prod(shape)), high - low
    if span > 2 ** 16:
        found = random_bits(seed, first, count, 64)[:count]
        found = (found if span == 2 ** 64 else found % np.uint64(span)) + np.uint64(low & (2 ** 64 - 1))
    else:
        words = random_bits(seed, first, count, 32)[:count].astype(np.uint64)
        found = (words * np.uint64(span) >> np.uint64(32)).view(np.int64) + low
    return found.astype(dtype).reshape(shape)


def randperm(seed, first, n, dtype):
    """The numbers below n in random order."""
    bits = max(n - 1, 0).bit_length()
    keys = np.sort(random_bits(seed, first, n, 64)[:n] << np.uint64(bits) | np.arange(n, dtype=np.uint64))
    return (keys & np.uint64((1 << bits) - 1)).astype(dtype)
