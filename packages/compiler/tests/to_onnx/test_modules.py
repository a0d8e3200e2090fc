"""Every module of `rushlight.nn` gives in onnxruntime what it gives eagerly."""

from __future__ import annotations

import inspect

import pytest

import rushlight

nn = pytest.importorskip("rushlight.nn")


def randn(*shape):
    """Fixed normal numbers."""
    return rushlight.randn(*shape, generator=rushlight.Generator().manual_seed(sum(shape)))


SIGNAL, IMAGE, VOLUME = (2, 4, 7), (2, 4, 6, 5), (1, 4, 4, 5, 3)
SPACES = {1: SIGNAL, 2: IMAGE, 3: VOLUME}
CASES = []


def case(name, *options, on=(), inputs=None, **named):
    """A module by name, its options, and the shape of its input, or a function that makes its inputs."""
    make = inputs or (lambda: (randn(*on),))
    CASES.append(pytest.param(name, options, named, make, id=f"{name}-{len(CASES)}"))


for name in ("CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
             "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink",
             "Softsign", "Tanh", "Tanhshrink", "Identity", "Flatten", "Dropout", "AlphaDropout"):  # fmt: skip
    case(name, on=(3, 5))
case("GELU", approximate="tanh", on=(3, 5))
case("Softplus", 2.0, 3.0, on=(3, 5))
case("Threshold", 0.1, 20.0, on=(3, 5))
case("GLU", on=(3, 4))
for name in ("Softmax", "LogSoftmax", "Softmin"):
    case(name, dim=1, on=(2, 3, 4))
case("Softmax2d", on=IMAGE)
case("Linear", 5, 3, on=(2, 5))
case("Linear", 5, 3, bias=False, on=(2, 3, 5))
case("NonDynamicallyQuantizableLinear", 5, 3, on=(5,))
case("Bilinear", 3, 4, 2, inputs=lambda: (randn(5, 3), randn(5, 4)))
case("Unflatten", 1, (2, 2), on=(3, 4))

for d, shape in SPACES.items():
    channels = shape[1]
    case(f"Conv{d}d", channels, 6, 3, on=shape)
    case(f"Conv{d}d", channels, 4, 2, stride=2, padding=1, dilation=2, groups=2, bias=False, on=shape)
    case(f"Conv{d}d", channels, 3, 3, padding="same", padding_mode="circular", on=shape)
    case(f"ConvTranspose{d}d", channels, 4, 3, stride=2, padding=1, output_padding=1, groups=2, on=shape)
    case(f"MaxPool{d}d", 2, on=shape)
    case(f"MaxPool{d}d", 3, stride=2, padding=1, ceil_mode=True, return_indices=True, on=shape)
    case(f"AvgPool{d}d", 2, on=shape)
    case(f"AvgPool{d}d", 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False, on=shape)
    case(f"AvgPool{d}d", 3, stride=2, padding=1, ceil_mode=True, on=shape)
    case(f"LPPool{d}d", 2, 2, on=shape)
    case(f"AdaptiveAvgPool{d}d", 1, on=shape)
    case(f"AdaptiveAvgPool{d}d", 3, on=shape)
    case(f"AdaptiveMaxPool{d}d", 2, return_indices=True, on=shape)
    case(f"BatchNorm{d}d", channels, on=shape)
    case(f"InstanceNorm{d}d", channels, affine=True, on=shape)
    case(f"InstanceNorm{d}d", channels, track_running_stats=True, on=shape)
    case(f"Dropout{d}d", on=shape)
    for kind in ("Reflection", "Replication", "Circular", "Zero"):
        case(f"{kind}Pad{d}d", (1, 2) * d, on=shape)
    case(f"ConstantPad{d}d", (1, -1) * d, 0.5, on=shape)
    case(f"MaxUnpool{d}d", 2, inputs=lambda shape=shape, d=d: getattr(nn.functional, f"max_pool{d}d")(
        randn(2, 3, *(4, 6, 2)[:d]), 2, return_indices=True))
    for kind in ("LazyConv", "LazyConvTranspose"):
        case(f"{kind}{d}d", 3, 2, on=shape)
    for kind in ("LazyBatchNorm", "LazyInstanceNorm"):
        case(f"{kind}{d}d", on=shape)
case("LazyLinear", 3, on=(2, 5))
case("FeatureAlphaDropout", on=VOLUME)
case("GroupNorm", 2, 4, on=IMAGE)
case("LayerNorm", (6, 5), on=IMAGE)
case("LayerNorm", 5, elementwise_affine=False, on=IMAGE)
case("LayerNorm", 5, bias=False, on=IMAGE)
case("RMSNorm", 5, on=IMAGE)
case("LocalResponseNorm", 2, on=IMAGE)
case("CrossMapLRN2d", 3, on=IMAGE)
case("PixelShuffle", 2, on=IMAGE)
case("PixelUnshuffle", 3, on=(1, 2, 6, 3))
case("ChannelShuffle", 2, on=IMAGE)
case("Unfold", 2, padding=1, stride=2, on=IMAGE)
case("Fold", (4, 5), 2, stride=2, padding=1, inputs=lambda: (randn(2, 8, 9),))
for mode, shape in (("nearest", SIGNAL), ("nearest", IMAGE), ("linear", SIGNAL), ("bilinear", IMAGE),
                    ("bicubic", IMAGE), ("trilinear", VOLUME), ("nearest-exact", IMAGE)):  # fmt: skip
    case("Upsample", scale_factor=2, mode=mode, on=shape)
case("Upsample", size=(9, 4), mode="bilinear", align_corners=True, on=IMAGE)
case("UpsamplingNearest2d", scale_factor=2, on=IMAGE)
case("UpsamplingBilinear2d", scale_factor=2, on=IMAGE)

TOKENS = rushlight.tensor([[1, 3, 0], [2, 2, 4]])
case("Embedding", 5, 3, inputs=lambda: (TOKENS,))
case("Embedding", 5, 3, padding_idx=0, inputs=lambda: (TOKENS,))
for mode in ("sum", "mean"):
    case("EmbeddingBag", 5, 3, mode=mode, inputs=lambda: (TOKENS,))

for name in ("RNN", "LSTM", "GRU"):
    case(name, 3, 4, on=(5, 2, 3))
    case(name, 3, 4, 2, bidirectional=True, batch_first=True, bias=False, on=(2, 5, 3))
    case(f"{name}Cell", 3, 4, on=(2, 3))
case("RNN", 3, 4, nonlinearity="relu", on=(5, 2, 3))
case("RNN", 3, 4, on=(5, 3))
case("LSTM", 3, 4, proj_size=2, on=(5, 2, 3))

case("MultiheadAttention", 4, 2, inputs=lambda: (randn(5, 2, 4), randn(3, 2, 4), randn(3, 2, 4)))
case("TransformerEncoderLayer", 4, 2, 8, on=(5, 2, 4))
case("TransformerEncoderLayer", 4, 2, 8, activation="gelu", norm_first=True, batch_first=True, on=(5, 2, 4))
case("TransformerDecoderLayer", 4, 2, 8, inputs=lambda: (randn(5, 2, 4), randn(3, 2, 4)))
case("Transformer", 4, 2, 1, 1, 8, inputs=lambda: (randn(5, 2, 4), randn(3, 2, 4)))


def scores():
    """Predictions and targets of the same shape."""
    return randn(3, 5), randn(3, 5)


def signs():
    """Predictions, and targets that are 1 or -1."""
    return randn(3, 5), randn(3, 5).sign()


def shares():
    """Probabilities, and targets between 0 and 1."""
    return randn(3, 5).sigmoid(), rushlight.ones(3, 5) / 4


def classes():
    """Scores of 4 classes, and classes."""
    return randn(3, 4), rushlight.tensor([1, 0, 3])


for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCEWithLogitsLoss", "PoissonNLLLoss"):
    case(name, inputs=scores)
    case(name, reduction="none", inputs=scores)
for name in ("HingeEmbeddingLoss", "SoftMarginLoss"):
    case(name, inputs=signs)
case("BCELoss", inputs=shares)
case("KLDivLoss", reduction="batchmean", inputs=shares)
case("GaussianNLLLoss", inputs=lambda: (*scores(), rushlight.ones(3, 5) / 2))
case("MarginRankingLoss", inputs=lambda: (*scores(), randn(3, 5).sign()))
case("CosineEmbeddingLoss", inputs=lambda: (*scores(), rushlight.tensor([1, -1, 1])))
case("CosineSimilarity", inputs=scores)
case("PairwiseDistance", inputs=scores)
case("TripletMarginLoss", inputs=lambda: (*scores(), randn(3, 5) + 1))
case("CrossEntropyLoss", inputs=classes)
case("CrossEntropyLoss", label_smoothing=0.1, inputs=classes)
case("CrossEntropyLoss", ignore_index=0, reduction="none", weight=rushlight.tensor([1.0, 2, 3, 4]), inputs=classes)
case("CrossEntropyLoss", inputs=lambda: (randn(3, 4), randn(3, 4).softmax(1)))
case("NLLLoss", inputs=classes)
case("NLLLoss2d", inputs=lambda: (randn(2, 3, 2, 2), rushlight.tensor([[[1, 0], [2, 1]]] * 2)))
case("MultiMarginLoss", inputs=classes)
case("MultiLabelSoftMarginLoss", inputs=lambda: (randn(3, 5), (randn(3, 5) > 0).float()))
case("LinearCrossEntropyLoss", 5, 4, inputs=lambda: (randn(3, 5), rushlight.tensor([1, 0, 3])))

# Modules that hold others, or have no forward of their own.
CONTAINERS = {
    "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential", "DataParallel", "RNNBase",
    "RNNCellBase", "TransformerEncoder", "TransformerDecoder", "SyncBatchNorm",
}  # fmt: skip
# Modules that look at the values of their inputs, and what export says to that.
REFUSED = [
    pytest.param("AdaptiveLogSoftmaxWithLoss", (8, 6, [2, 4], 2.0),
                 lambda: (randn(3, 8), rushlight.tensor([1, 3, 5])), "item", id="AdaptiveLogSoftmaxWithLoss"),
    pytest.param("CTCLoss", (), lambda: (randn(6, 2, 4).log_softmax(2), rushlight.tensor([[1, 2, 1], [3, 1, 0]]),
                                         rushlight.tensor([6, 5]), rushlight.tensor([3, 2])), "numpy", id="CTCLoss"),
    pytest.param("FractionalMaxPool2d", (2, 3), lambda: (randn(*IMAGE),), "tolist", id="FractionalMaxPool2d"),
    pytest.param("FractionalMaxPool3d", (2, 2), lambda: (randn(*VOLUME),), "tolist", id="FractionalMaxPool3d"),
    pytest.param("MultiLabelMarginLoss", (), lambda: (randn(2, 4), rushlight.tensor([[3, 0, -1, 1], [0, -1, 1, 2]])),
                 "the memory", id="MultiLabelMarginLoss"),
    pytest.param("TripletMarginWithDistanceLoss", (), lambda: (*scores(), randn(3, 5)), "PairwiseDistance",
                 id="TripletMarginWithDistanceLoss"),
]  # fmt: skip


def test_every_module_has_a_case():
    modules = {name for name, found in vars(nn).items() if inspect.isclass(found) and issubclass(found, nn.Module)}
    assert {p.values[0] for p in [*CASES, *REFUSED]} | CONTAINERS == modules | CONTAINERS


@pytest.mark.parametrize("name, options, named, make", CASES)
def test_module_gives_the_same(name, options, named, make, equal_in_onnxruntime):
    rushlight.manual_seed(0)
    inputs = make()
    model = getattr(nn, name)(*options, **named)
    if name.startswith("Lazy"):
        model(*inputs)
    equal_in_onnxruntime(model.eval(), *inputs, close=1e-4)


@pytest.mark.parametrize("name, options, make, reason", REFUSED)
def test_module_that_reads_values_is_refused(name, options, make, reason):
    with pytest.raises(RuntimeError, match=f"cannot be captured whole: .*{reason}"):
        rushlight.onnx.export(getattr(nn, name)(*options), make())
