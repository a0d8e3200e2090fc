"""numpy functions for operations that are no loops over elements. Their source is copied into the files that use them.

Arguments are those of the ops of the same names.
"""

from __future__ import annotations

import numpy as np

# products, convolution and pooling; images are (N, C, *size)


def linear(x, weight, bias):
    """`x @ weight.T + bias`."""
    return x @ weight.T if bias is None else x @ weight.T + bias


def linear_weight_grad(x, grad):
    """`grad.T @ x` over all leading dimensions."""
    return grad.reshape(-1, grad.shape[-1]).T @ x.reshape(-1, x.shape[-1])


def windows(x, kernel, stride, dilation):
    """The windows of images, as a view (N, C, *places, *kernel)."""
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    view = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, x.ndim)))
    whole = slice(None)
    return view[(whole, whole, *[slice(None, None, s) for s in stride], *[slice(None, None, d) for d in dilation])]


def border(x, before, after, value=0):
    """Images with `value` around them."""
    return np.pad(x, ((0, 0), (0, 0), *zip(before, after)), constant_values=value)


def columns(x, kernel, stride, padding, dilation, groups):
    """The windows of padded images as rows of matrices: (groups, N * places, C / groups * kernel), and the places."""
    view, dims = windows(border(x, padding, padding), kernel, stride, dilation), len(stride)
    places = view.shape[2:2 + dims]
    split = view.reshape(len(x), groups, -1, *places, *kernel)
    order = (1, 0, *range(3, 3 + dims), 2, *range(3 + dims, 3 + 2 * dims))
    rows = len(x) * int(np.prod(places))
    return split.transpose(order).reshape(groups, rows, x.shape[1] // groups * int(np.prod(kernel))), places


def conv(x, weight, bias, stride, padding, dilation, groups):
    """Cross-correlation as a product of matrices."""
    rows, places = columns(x, weight.shape[2:], stride, padding, dilation, groups)
    filters = weight.reshape(groups, len(weight) // groups, -1)
    found = (rows @ filters.transpose(0, 2, 1)).reshape(groups, len(x), *places, -1)
    order = (1, 0, found.ndim - 1, *range(2, found.ndim - 1))
    result = found.transpose(order).reshape(len(x), len(weight), *places)
    return result if bias is None else result + bias.reshape(-1, *[1] * len(places))


def conv_weight_grad(x, grad, kernel, stride, padding, dilation, groups):
    """The gradient of `conv` by its weight."""
    rows, _ = columns(x, kernel, stride, padding, dilation, groups)
    split = grad.reshape(len(x), groups, grad.shape[1] // groups, -1).transpose(1, 2, 0, 3)
    found = split.reshape(groups, grad.shape[1] // groups, -1) @ rows
    return found.reshape(grad.shape[1], x.shape[1] // groups, *kernel)


def conv_transpose(x, weight, bias, stride, padding, output_padding, dilation, groups):
    """The gradient of `conv` by its input: products added up where the windows were."""
    n, kernel, size = len(x), weight.shape[2:], x.shape[2:]
    whole = [(m - 1) * s + d * (k - 1) + 1 for m, s, d, k in zip(size, stride, dilation, kernel)]
    room = [w + o for w, o in zip(whole, output_padding)]
    channels = weight.shape[1]
    result = np.zeros((n, groups, channels, *room), x.dtype)
    flat = x.reshape(n, groups, x.shape[1] // groups, -1)
    filters = weight.reshape(groups, -1, channels, *kernel)
    for place in np.ndindex(*kernel):
        part = filters[(slice(None), slice(None), slice(None), *place)].swapaxes(1, 2) @ flat
        cut = [slice(p * d, p * d + (m - 1) * s + 1, s) for p, d, m, s in zip(place, dilation, size, stride)]
        result[(slice(None), slice(None), slice(None), *cut)] += part.reshape(n, groups, channels, *size)
    keep = [slice(p, r - p) for p, r in zip(padding, room)]
    result = result.reshape(n, groups * channels, *room)[(slice(None), slice(None), *keep)]
    return result if bias is None else result + bias.reshape(-1, *[1] * len(size))


def pool_places(size, kernel, stride, padding, dilation, ceil_mode):
    """How many windows there are along each dimension, and how much of a border they need after it."""
    counts, after = [], []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation):
        room = n + 2 * p - d * (k - 1) - 1
        count = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (count - 1) * s >= n + p:  # the last window would begin outside
            count -= 1
        counts.append(count)
        after.append(max(0, (count - 1) * s + d * (k - 1) + 1 - n - p))
    return counts, after


def pool_windows(x, kernel, stride, padding, dilation, ceil_mode, value):
    """The windows of images with a border of `value`, flat: (N, C, *places, elements)."""
    counts, after = pool_places(x.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    view = windows(border(x, padding, after, value), kernel, stride, dilation)
    view = view[(slice(None), slice(None), *[slice(c) for c in counts])]
    return view.reshape(*x.shape[:2], *counts, -1)


def max_pool(x, kernel, stride, padding, dilation, ceil_mode):
    """The largest element of each window, and its position in its plane."""
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    at = np.arange(int(np.prod(x.shape[2:]))).reshape(1, 1, *x.shape[2:])
    places = pool_windows(at, kernel, stride, padding, dilation, ceil_mode, -1)
    view = pool_windows(x, kernel, stride, padding, dilation, ceil_mode, lowest)
    best = np.where((view == view.max(-1, keepdims=True)) | (view != view), places >= 0, False).argmax(-1)[..., None]
    best = np.where(np.take_along_axis(np.broadcast_to(places, view.shape), best, -1) < 0,
                    (places >= 0).argmax(-1)[..., None], best)
    return (np.take_along_axis(view, best, -1)[..., 0],
            np.take_along_axis(np.broadcast_to(places, view.shape), best, -1)[..., 0])


def pool_divisor(size, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
    """By what each window of `avg_pool` is divided: (*places)."""
    if divisor:
        return divisor
    inside = np.ones((1, 1, *size))
    if count_include_pad:  # the border counts, but not what rounding up adds to it
        inside, padding = border(inside, padding, padding, 1), [0] * len(padding)
        size = inside.shape[2:]
        counts, after = pool_places(size, kernel, stride, padding, [1] * len(size), ceil_mode)
        view = windows(border(inside, padding, after), kernel, stride, [1] * len(size))
        return view.reshape(*view.shape[2:2 + len(size)], -1).sum(-1)
    return pool_windows(inside, kernel, stride, padding, [1] * len(size), ceil_mode, 0).sum(-1)[0, 0]


def avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
    """The mean of each window."""
    total = pool_windows(x, kernel, stride, padding, [1] * len(kernel), ceil_mode, 0).sum(-1)
    by = pool_divisor(x.shape[2:], kernel, stride, padding, ceil_mode, count_include_pad, divisor)
    if not np.isscalar(by):
        by = by[tuple([slice(n) for n in total.shape[2:]])]
    return (total / by).astype(x.dtype)


def top(x, dim):
    """The largest element along dimensions, which stay with size 1."""
    return x.max(axis=dim, keepdims=True, initial=-np.inf if x.dtype.kind == "f" else None)


def softmax(x, dim):
    """`exp(x) / exp(x).sum(dim)` without overflow."""
    powers = np.exp(x - top(x, dim))
    return powers / powers.sum(axis=dim, keepdims=True)


def log_softmax(x, dim):
    """`log(softmax(x, dim))` without overflow."""
    x = x - top(x, dim)
    return x - np.log(np.exp(x).sum(axis=dim, keepdims=True))


def logsumexp(x, dim, keepdim):
    """The logarithm of the sum of exponentials without overflow."""
    largest = top(x, dim)
    largest = np.where(np.isfinite(largest), largest, 0).astype(x.dtype)
    found = np.log(np.exp(x - largest).sum(axis=dim, keepdims=True)) + largest
    return found if keepdim else found.squeeze(axis=dim)


def nll_loss(x, target, weight, ignore_index, reduction):
    """`-weight[target] * x[target]`, summed or averaged over the targets that count."""
    classes = min(1, x.ndim - 1)
    rows = np.moveaxis(x, classes, -1).reshape(-1, x.shape[classes])
    index = target.reshape(-1).astype(np.int64)
    counts = index != ignore_index
    index = checked(np.where(counts, index, 0), rows.shape[1])
    factors = np.where(counts, 1 if weight is None else weight[index], 0).astype(x.dtype)
    loss = -factors * rows[np.arange(len(index)), index]
    if reduction == "none":
        return loss.reshape(target.shape)
    return loss.sum() / factors.sum() if reduction == "mean" else loss.sum()


# indexing


def whole_index(indices):
    """Index tensors, None for a dimension that is taken whole."""
    return tuple([slice(None) if index is None else index for index in indices])


def checked(index, size, lowest=0):
    """Indices from `lowest` up to the size of a dimension; IndexError for others, which numpy may count from the end.
    """
    if index.size and not (lowest <= index.min() and index.max() < size):
        raise IndexError(f"index {index.min()} or {index.max()} is out of bounds for a dimension of size {size}")
    return index


def gather(x, index, dim):
    """`x[index[i, j], j]` along dimension 0, likewise along others."""
    shape = [n if d == dim % x.ndim else m for d, (n, m) in enumerate(zip(x.shape, index.shape))]
    return np.take_along_axis(x[tuple(map(slice, shape))], checked(index, x.shape[dim]), dim)


def scattered(x, index, source, dim, add):
    """A copy of `x` with the elements of `source` put, or added, where `index` says."""
    result = x.copy()
    places = list(np.indices(index.shape, sparse=True))
    places[dim] = checked(index, x.shape[dim])
    source = source if np.isscalar(source) or not np.ndim(source) else source[tuple(map(slice, index.shape))]
    if add:
        np.add.at(result, tuple(places), source)
    else:
        result[tuple(places)] = source
    return result


def index_put(x, values, *indices, accumulate):
    """A copy of `x` with the elements at index tensors replaced, or added to."""
    result, at = x.copy(), whole_index(indices)
    if accumulate:
        np.add.at(result, at, values)
    else:
        result[at] = values
    return result


def along(x, index, source, dim, add, negative=False):
    """A copy of `x` with the parts of `source` put, or added, at the places `index` of a dimension; `negative` ones
    may count from its end.
    """
    result, size = x.copy(), x.shape[dim]
    at = (*[slice(None)] * (dim % max(x.ndim, 1)), checked(index, size, -size if negative else 0))
    if add:
        np.add.at(result, at, source)
    else:
        result[at] = source
    return result


def embedding_backward(grad, indices, rows, padding_idx, scale_grad_by_freq):
    """Gradients added up in the rows of a table that they belong to."""
    index, grads = indices.reshape(-1), grad.reshape(-1, grad.shape[-1])
    if scale_grad_by_freq:
        grads = grads / np.bincount(index, minlength=rows)[index][:, None].astype(grad.dtype)
    result = np.zeros((rows, grad.shape[-1]), grad.dtype)
    np.add.at(result, index[index != padding_idx], grads[index != padding_idx])
    return result


def pad(x, value, before, after):
    """`value` added before and after each dimension; negative amounts cut off."""
    x = x[tuple([slice(max(-b, 0), n - max(-a, 0)) for n, b, a in zip(x.shape, before, after)])]
    return np.pad(x, [(max(b, 0), max(a, 0)) for b, a in zip(before, after)], constant_values=value)


def unfold(x, dim, size, step):
    """Windows of a dimension, as a new last dimension."""
    view = np.lib.stride_tricks.sliding_window_view(x, size, dim)
    return view[(*[slice(None)] * (dim % x.ndim), slice(None, None, step))]


# order


def argsort(x, dim, descending, stable):
    """The positions that sort a dimension; NaN counts as the largest number."""
    if not descending:
        return np.argsort(x, dim, kind="stable")
    return x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), dim, kind="stable"), dim)


def topk(x, k, dim, largest, ordered):
    """The positions of the k largest or smallest elements of a dimension."""
    return np.take(argsort(x, dim, largest, True), np.arange(k), dim)


def position(find, x, dim, keepdim):
    """`find` (argmax or argmin) along one dimension, or in the flattened array when `dim` names more."""
    if len(dim) == 1:
        return find(x, axis=dim[0], keepdims=keepdim)
    shape = [1 if d in dim else n for d, n in enumerate(x.shape)] if keepdim else ()
    return np.reshape(find(x), shape)


def scan(ufunc, x, dim, dtype, reverse):
    """A running sum or product, from the end for `reverse`."""
    if not x.ndim:
        return x.astype(dtype)
    x = np.flip(x, dim) if reverse else x
    found = ufunc.accumulate(x, axis=dim, dtype=np.float64 if x.dtype == np.float32 else None).astype(dtype)
    return np.flip(found, dim) if reverse else found


# complex numbers and statistics


def complex_of(real, imag):
    """Complex numbers of these parts; `real + 1j * imag` would turn infinite parts into NaN."""
    result = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real, np.complex64))
    result.real, result.imag = real, imag
    return result


def var(x, dim, keepdim, correction):
    """The variance, divided by `size - correction`; numpy's own prints warnings where that is not positive."""
    count = np.array(int(np.prod([x.shape[d] for d in dim])), x.real.dtype)
    apart = x - np.sum(x, axis=dim, keepdims=True) / count
    squares = apart.real ** 2 + apart.imag ** 2 if x.dtype.kind == "c" else apart * apart
    total = np.sum(squares, axis=dim, keepdims=keepdim)
    return total / np.maximum(count - count.dtype.type(correction), 0)


# checks


def no_zero(divisor):
    """ZeroDivisionError when a divisor of integers is 0."""
    if not np.all(divisor):
        raise ZeroDivisionError("ZeroDivisionError: an integer is divided by 0")
