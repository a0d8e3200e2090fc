"""Sizes that stay open: models are run with other sizes than those that they were exported with."""

from __future__ import annotations

import math

import pytest

import rushlight

nn = pytest.importorskip("rushlight.nn")
export = pytest.importorskip("rushlight.export")


def randn(*shape):
    """Fixed normal numbers."""
    return rushlight.randn(*shape, generator=rushlight.Generator().manual_seed(sum(shape)))


def shapes_of(program) -> tuple[list, list]:
    """The sizes of inputs and outputs, as the file says them."""
    graph = program.model.graph
    return [info.shape for info in graph.inputs], [info.shape for info in graph.outputs]


def calculating(x, y):
    """Sizes that are computed from others."""
    batch, time = x.shape
    pairs = x.view(batch, time // 2, 2).sum(-1) + y
    return {
        "cut": rushlight.cat([pairs, pairs * 2], 1)[:, : time - 1],
        "places": rushlight.arange(time),
        "zeros": x.new_zeros(batch, time + batch),
        "scaled": x * batch + time // 2,
        "mean": x.mean(),
        "averaged": x.sum(0) * (1 / batch) / time ** 0.5,
        "rows": batch * 2,
        "deviation": x.std(0),
        "flat": x.softmax(1).reshape(-1),
        "strided": x[1:, ::2],
        "spread": x.expand(3, batch, time),
        "below": rushlight.ones(time, time).tril(),
        "last": x[:, -1],
        "rolled": x.roll(1, 1),
        "sorted": x.sort(1)[0],
        "hot": nn.functional.one_hot(x.argmax(1), 12),
        "padded": nn.functional.pad(x, (1, 2)),
    }


MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 2)),
    "cnn": lambda: nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.MaxPool2d(2),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)),
    "pools": lambda: nn.Sequential(nn.AvgPool2d(3, 2, 1, ceil_mode=True), nn.AdaptiveMaxPool2d((4, 3)),
                                   nn.AdaptiveAvgPool2d((3, 2)), nn.Unfold(2)),
    "lstm": lambda: nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True),
    "attention": lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    "embedding": lambda: nn.Sequential(nn.Embedding(9, 4), nn.LayerNorm(4), nn.Linear(4, 9)),
    "norm": lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.GELU(), nn.Softmax(1)),
}  # fmt: skip
INPUTS = {
    "mlp": (lambda n, m: (randn(n, 4),), ({0: "batch"},)),
    "cnn": (lambda n, m: (randn(n, 1, 2 * m, 8),), ({0: "batch", 2: "height"},)),
    "pools": (lambda n, m: (randn(n, 2, 3 * m + 5, 9),), ({0: "batch", 2: "height"},)),
    "lstm": (lambda n, m: (randn(n, m, 3),), ({0: "batch", 1: "time"},)),
    "attention": (lambda n, m: (randn(n, m, 4),), ({0: "batch", 1: "time"},)),
    "embedding": (lambda n, m: (rushlight.arange(n * m).view(n, m) % 9,), ({0: "batch", 1: "time"},)),
    "norm": (lambda n, m: (randn(n, 4, m, 3),), ({0: "batch", 2: "height"},)),
}


@pytest.mark.parametrize("name", MODELS)
def test_model_takes_other_sizes(name, equal_in_onnxruntime):
    rushlight.manual_seed(0)
    make, shapes = INPUTS[name]
    others = [make(*sizes) for sizes in ((2, 3), (5, 8), (7, 2), (1, 4))]
    program = equal_in_onnxruntime(MODELS[name]().eval(), *make(3, 4), others=others, close=1e-4,
                                   dynamic_shapes=shapes)
    found = shapes_of(program)[0][0]
    assert {d: size for d, size in enumerate(found) if isinstance(size, str)} == shapes[0]


def test_sizes_are_computed_from_shapes(equal_in_onnxruntime):
    shapes = {"x": {0: "batch", 1: "time"}, "y": {0: "batch"}}
    others = [(randn(4, 6), randn(4, 1)), (randn(9, 12), randn(9, 1))]
    program = equal_in_onnxruntime(calculating, randn(3, 8), randn(3, 1), others=others, dynamic_shapes=shapes)
    inputs, outputs = shapes_of(program)
    assert inputs == [["batch", "time"], ["batch", 1]]
    assert outputs[:3] == [["batch", "time - 1"], ["time"], ["batch", "batch + time"]]


def resizing(x):
    """Images of sizes that follow from others, and images around them."""
    resized, small = nn.functional.interpolate, x[..., ::2, ::2]
    return {
        "twice": resized(x, scale_factor=2, mode="bilinear"),
        "back": resized(small, size=x.shape[2:], mode="bilinear", align_corners=True),
        "nearest": resized(small, size=x.shape[2:]),
        "exact": resized(x, scale_factor=1.5, mode="nearest-exact"),
        "cubic": resized(x, scale_factor=(2.0, 0.75), mode="bicubic"),
        "windowed": resized(x, size=(5, 70), mode="bilinear", antialias=True),
        "mirrored": nn.functional.pad(x, (1, 2, 3, 0), "reflect"),
        "edges": nn.functional.pad(x, (1, 2, 3, 0), "replicate"),
        "around": nn.functional.pad(x, (1, 2, 3, 0), "circular"),
        "moved": nn.functional.grid_sample(x, nn.functional.affine_grid(x[:, 0, :2, :3], x.shape, align_corners=False),
                                           align_corners=False),
    }


def test_images_of_open_sizes_are_resized(equal_in_onnxruntime):
    height, width = export.Dim("height", min=8), export.Dim("width", min=8)
    others = [(randn(1, 2, *sizes),) for sizes in ((15, 21), (33, 8))]
    equal_in_onnxruntime(resizing, randn(1, 2, 12, 16), others=others, dynamic_shapes=({2: height, 3: width},))


def pooled(x):
    """Windows of sizes that follow from the image's."""
    return nn.functional.adaptive_avg_pool2d(x, (3, 2)), nn.functional.adaptive_max_pool2d(x, (3, 2))


def test_windows_of_open_sizes_lie_side_by_side(equal_in_onnxruntime):
    others = [(randn(1, 2, *sizes),) for sizes in ((15, 20), (6, 8))]
    program = equal_in_onnxruntime(pooled, randn(1, 2, 12, 16), others=others,
                                   dynamic_shapes=(dict.fromkeys((2, 3), export.Dim.AUTO),))
    assert shapes_of(program)[0] == [[1, 2, "s0", "s1"]]


class Spectral(nn.Module):
    """Complex weights, rotations of pairs, and Fourier transforms of signals."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(rushlight.complex(randn(2, 3), randn(3, 2).t()))

    def forward(self, x, z):
        fft, window = rushlight.fft, rushlight.hann_window(8)
        spectrum = fft.rfft(x)
        kept = rushlight.einsum("bif,if->bif", spectrum[:, :, :3], self.weight)
        framed = rushlight.stft(x.flatten(0, 1), 8, 2, window=window, return_complex=True)
        angles = rushlight.outer(rushlight.arange(x.shape[-1] // 2), rushlight.tensor([1.0, 0.5]))
        turned = rushlight.polar(angles * 0 + 1, angles) * rushlight.view_as_complex(x.reshape(-1, len(angles), 1, 2))
        return {
            "filtered": fft.irfft(kept, n=x.shape[-1]), "mixed": fft.fft2(x).real, "framed": framed,
            "again": rushlight.istft(framed, 8, 2, window=window), "turned": rushlight.view_as_real(turned),
            "product": z @ z.mH / 2j + z.abs().sum(), "roots": z.sqrt().exp(),
            "whole": fft.ifft(z, dim=0, norm="ortho"),
        }


def test_complex_numbers_are_pairs(equal_in_onnxruntime):
    def given(batch, time):
        return randn(batch, 2, time), rushlight.complex(randn(batch, 3), randn(3, batch).t())

    model = Spectral().eval()
    for opset in (18, 20):
        program = equal_in_onnxruntime(model, *given(2, 16), others=[given(3, 24)], close=1e-4, opset_version=opset,
                                       dynamic_shapes=({0: "batch", 2: "time"}, {0: "batch"}))
    assert shapes_of(program)[0] == [["batch", 2, "time"], ["batch", 3, 2]]
    program.apply_weights({"weight": model.weight * 0})
    assert program(*given(2, 16))[0].abs().max() == 0


def test_real_numbers_have_no_imaginary_part(equal_in_onnxruntime):
    def program(x, z):
        return x + z, rushlight.cat([x, z]), x.to(z.dtype), 1 / x.to(z.dtype).imag

    equal_in_onnxruntime(program, rushlight.tensor([math.inf, -1.0, math.nan]), rushlight.full((3,), 1 + 2j))


def test_random_numbers_and_attention_of_open_shape():
    program = rushlight.onnx.export(nn.Dropout(0.5), (rushlight.ones(4, 10),), dynamic_shapes=({0: "batch"},))
    assert 300 < int((program(rushlight.ones(100, 10))[0] == 0).sum()) < 700
    query = randn(2, 2, 6, 4)
    shapes = ({2: "time"},) * 3
    causal = rushlight.onnx.export(
        lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), (query,) * 3,
        dynamic_shapes=shapes)  # fmt: skip
    for x in (query, randn(2, 2, 9, 4)):
        expected = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        assert rushlight.allclose(causal(x, x, x)[0], expected, atol=1e-5)


def test_what_sizes_must_satisfy_is_written_down():
    def program(x):
        return x * 2 if x.shape[0] > 3 else x

    auto = rushlight.onnx.export(program, (rushlight.ones(5, 2),), dynamic_shapes=({0: export.Dim.AUTO},))
    assert "> 3" in auto.model.properties["rushlight.sizes"] or ">= 4" in auto.model.properties["rushlight.sizes"]
    with pytest.raises(Exception, match="Constraints violated"):
        rushlight.onnx.export(program, (rushlight.ones(5, 2),), dynamic_shapes=({0: export.Dim("rows")},))


def test_axes_by_the_names_of_inputs_and_outputs(equal_in_onnxruntime):
    program = equal_in_onnxruntime(
        nn.Linear(3, 2), randn(4, 3), others=[(randn(7, 3),)], input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "rows"}, "y": [0]})  # fmt: skip
    assert shapes_of(program) == ([["rows", 3]], [["rows", 2]])
    program = rushlight.onnx.export(nn.Linear(3, 2), (randn(4, 3),), input_names=["x"], dynamic_axes={"x": [0]})
    assert shapes_of(program)[0] == [["x_dynamic_axes_1", 3]]
    program.rename_axes({"x_dynamic_axes_1": "n"})
    assert shapes_of(program) == ([["n", 3]], [["n", 2]])


def test_named_dimensions_and_nested_arguments(equal_in_onnxruntime):
    batch = export.Dim("batch")

    def program(pair, *, extra):
        return pair[0] @ extra["w"], pair[1] + 1

    shapes = {"pair": [{0: batch}, {0: batch}], "extra": {"w": {1: "width"}}}
    others = [([randn(6, 3), randn(6)],)]
    found = equal_in_onnxruntime(program, [randn(4, 3), randn(4)], kwargs={"extra": {"w": randn(3, 2)}}, others=others,
                                 dynamic_shapes=shapes)
    assert shapes_of(found)[0] == [["batch", 3], ["batch"], [3, "width"]]


def test_a_dict_may_be_the_only_argument(equal_in_onnxruntime):
    program = equal_in_onnxruntime(lambda batch: batch["x"] @ batch["w"], {"x": randn(2, 3), "w": randn(3, 2)})
    assert shapes_of(program)[0] == [[2, 3], [3, 2]]


def test_sizes_and_numbers_follow_from_others():
    n = export.Dim("n")

    def f(x, y):
        return x[1:] * y, x.var(0), y.mean(0) / (x.shape[0] - 1)

    program = rushlight.onnx.export(f, (rushlight.randn(5, 3), rushlight.randn(4, 3)),
                                    dynamic_shapes=({0: n + 1}, {0: n}))
    x, y = rushlight.randn(9, 3), rushlight.randn(8, 3)
    for a, b in zip(program(x, y), f(x, y), strict=True):
        rushlight.testing.assert_close(a, b)
