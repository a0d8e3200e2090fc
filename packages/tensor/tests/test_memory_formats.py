"""Channels last: layers keep the format of their input, with the values of row-major ones and PyTorch's strides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight
from rushlight.core.front import EXPORTS
from rushlight.core.layout import suggested_format
from rushlight.core.meta import meta


def image(*shape, last=True):
    """Numbers that differ, laid out with channels last or row-major."""
    x = (rushlight.arange(float(np.prod(shape))).reshape(shape) * 0.37).sin()
    wanted = {4: rushlight.channels_last, 5: rushlight.channels_last_3d}[len(shape)]
    return x.contiguous(memory_format=wanted) if last else x


def parts(result):
    return result if isinstance(result, tuple) else (result,)


def by(name, *args, namespace="nn.functional", **kwargs):
    """The function of `(library, input)` that calls one by name."""

    def call(library, x):
        found = library
        path = [*filter(None, namespace.split(".")), name]
        if library is rushlight and ".".join(path) in EXPORTS:  # also where the package nn is not installed
            found, path = EXPORTS[".".join(path)], []
        for part in path:
            found = getattr(found, part)
        return found(x, *[a(library) if callable(a) else a for a in args], **kwargs)

    return call


def weight(*shape):
    return lambda library: library.ones(shape)


IMAGES = {
    "conv2d": by("conv2d", weight(3, 4, 3, 3), namespace=""),
    "conv2d grouped": by("conv2d", weight(4, 1, 2, 2), groups=4, namespace=""),
    "conv_transpose2d": by("conv_transpose2d", weight(4, 3, 3, 3), stride=2, namespace=""),
    "batch_norm": by("batch_norm", None, None, training=True),
    "group_norm": by("group_norm", 2),
    "instance_norm": by("instance_norm"),
    "max_pool2d": by("max_pool2d", 2, return_indices=True),
    "avg_pool2d": by("avg_pool2d", 2),
    "lp_pool2d": by("lp_pool2d", 2, 2),
    "adaptive_avg_pool2d": by("adaptive_avg_pool2d", (3, 5)),
    "adaptive_avg_pool2d uneven": by("adaptive_avg_pool2d", 4),
    "adaptive_max_pool2d": by("adaptive_max_pool2d", 4, return_indices=True),
    "interpolate nearest": by("interpolate", scale_factor=2),
    "interpolate bilinear": by("interpolate", (9, 4), mode="bilinear"),
    "interpolate area": by("interpolate", (3, 5), mode="area"),
    "pixel_shuffle": by("pixel_shuffle", 2, namespace=""),
    "channel_shuffle": by("channel_shuffle", 2, namespace=""),
    "pad": by("pad", (1, 2)),
    "pad reflect": by("pad", (1, 1, 1, 1), mode="reflect"),
    "pad circular": by("pad", (1, 1, 1, 1), mode="circular"),
    "flip": by("flip", (1,), namespace="Tensor"),
    "roll": by("roll", 1, 1, namespace="Tensor"),
    "rot90": by("rot90", 1, (2, 3), namespace="Tensor"),
    "narrow_copy": by("narrow_copy", 1, 0, 2, namespace=""),
    "transpose_copy": by("transpose_copy", 1, 2, namespace=""),
    "stack": lambda library, x: library.stack([x, x, x], 2),
    "stack last": lambda library, x: library.stack([x, x], -1),
}
VOLUMES = {
    "conv3d": by("conv3d", weight(3, 4, 2, 2, 2), namespace=""),
    "max_pool3d": by("max_pool3d", 2, return_indices=True),
    "avg_pool3d": by("avg_pool3d", 2),
    "adaptive_max_pool3d": by("adaptive_max_pool3d", 2, return_indices=True),
    "batch_norm 3d": by("batch_norm", None, None, training=True),
    "interpolate trilinear": by("interpolate", scale_factor=2, mode="trilinear"),
    "pad 3d": by("pad", (1, 1)),
}
CALLS = [(name, call, (2, 4, 6, 5)) for name, call in IMAGES.items()]
CALLS += [(name, call, (2, 4, 4, 6, 5)) for name, call in VOLUMES.items()]


@pytest.mark.parametrize("call, shape", [pytest.param(*case, id=name) for name, *case in CALLS])
def test_values_do_not_depend_on_the_format(call, shape):
    got, wanted = call(rushlight, image(*shape)), call(rushlight, image(*shape, last=False))
    for a, b in zip(parts(got), parts(wanted)):
        assert np.allclose(a.numpy(), b.numpy(), atol=1e-6)
        array = a.numpy()
        assert array.strides == tuple(step * array.itemsize for step in a.stride())  # metadata is true of the memory


@pytest.mark.parametrize("call, shape", [pytest.param(*case, id=name) for name, *case in CALLS])
def test_strides_are_pytorchs(call, shape):
    torch = pytest.importorskip("torch")
    x = image(*shape)
    for a, b in zip(parts(call(rushlight, x)), parts(call(torch, torch.from_numpy(x.numpy())))):
        assert [n for n, size in zip(a.stride(), a.shape) if size > 1] == [
            n for n, size in zip(b.stride(), b.shape) if size > 1
        ]


def test_the_weight_decides_too():
    filters = image(3, 4, 3, 3)
    assert rushlight.conv2d(image(2, 4, 6, 5, last=False), filters).is_contiguous(memory_format=rushlight.channels_last)
    ones = rushlight.ones(3, 4, 1, 1)  # in both formats at once: row-major
    assert rushlight.conv2d(image(2, 4, 6, 5, last=False), ones).is_contiguous()


def test_many_elements_are_laid_out():
    x = image(2, 32, 40, 40)
    got = rushlight.conv2d(x, rushlight.ones(8, 32, 3, 3))
    assert got.is_contiguous(memory_format=rushlight.channels_last)
    assert np.allclose(got, rushlight.conv2d(x.contiguous(), rushlight.ones(8, 32, 3, 3)), atol=1e-4)


@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=5).map(tuple),
    st.permutations(range(5)),
    st.booleans(),
)
def test_the_format_is_pytorchs_guess(shape, order, sliced):
    torch = pytest.importorskip("torch")
    order = [d for d in order if d < len(shape)]
    x = torch.zeros([shape[d] + sliced for d in order]).permute([order.index(d) for d in range(len(shape))])
    x = x[tuple(slice(0, size) for size in shape)]
    names = {3: "contiguous_format", 4: "channels_last", 5: "channels_last_3d"}
    wanted = torch._prims_common.suggest_memory_format(x)
    found = suggested_format(meta(rushlight.float32, shape, x.stride()))
    assert found.name == str(wanted).split(".")[1] and found.name in (names[len(shape)], "contiguous_format")
