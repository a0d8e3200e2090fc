"""What the generated suite cannot say of the structured families: laws over many arguments, and refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.core.front import EXPORTS
from rushlight.core.op import prims
from rushlight.ops.einsum import einsum
from rushlight.ops.matmul import linear
from rushlight.ops.pool_adaptive import bounds

RNG = np.random.default_rng(0)


def both(array: np.ndarray) -> tuple[np.ndarray, rushlight.Tensor]:
    return array, rushlight.from_numpy(array)


@st.composite
def equations(draw) -> tuple[str, list[tuple[int, ...]]]:
    """An einsum equation and the shapes that its operands have."""
    sizes = {label: draw(st.integers(1, 3)) for label in "abcd"}
    terms = draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    result = draw(st.permutations(used))[: draw(st.integers(0, len(used)))] if used else []
    return f"{','.join(terms)}->{''.join(result)}", [tuple(sizes[label] for label in term) for term in terms]


@settings(max_examples=60, deadline=None)
@given(equations())
def test_einsum_is_numpys(case):
    equation, shapes = case
    arrays = [RNG.standard_normal(shape) for shape in shapes]
    got = einsum(equation, *[rushlight.from_numpy(x) for x in arrays])
    np.testing.assert_allclose(got.numpy(), np.einsum(equation, *arrays), rtol=1e-10, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 2), st.data())
def test_adaptive_pooling_averages_to_the_mean(count, data):
    """Windows of equal size have the same weight, so their means average to the mean of all."""
    out = data.draw(st.tuples(*[st.integers(1, 3)] * count))
    size = tuple(o * data.draw(st.integers(1, 3)) for o in out)
    x = RNG.standard_normal((2, 3, *size))
    got = EXPORTS[f"nn.functional.adaptive_avg_pool{count}d"](rushlight.from_numpy(x), out).numpy()
    np.testing.assert_allclose(got.reshape(2, 3, -1).mean(-1), x.reshape(2, 3, -1).mean(-1))


def test_unpooling_undoes_max_pooling_where_the_largest_were():
    x, t = both(RNG.standard_normal((2, 3, 6, 4)))
    values, indices = EXPORTS["nn.functional.max_pool2d"](t, 2, return_indices=True)
    back = EXPORTS["nn.functional.max_unpool2d"](values, indices, 2).numpy()
    assert ((back == 0) | (back == x)).all() and (back != 0).sum() == values.numel()


def test_ctc_loss_adds_up_all_alignments():
    steps, classes, target = 4, 3, [1, 1]
    logits = RNG.standard_normal((steps, 1, classes))
    log_probs = logits - np.log(np.exp(logits).sum(2, keepdims=True))

    def collapsed(path: tuple[int, ...]) -> list[int]:
        return [label for label, _ in itertools.groupby(path) if label]

    paths = [p for p in itertools.product(range(classes), repeat=steps) if collapsed(p) == target]
    total = sum(np.exp(sum(log_probs[t, 0, label] for t, label in enumerate(path))) for path in paths)
    loss = EXPORTS["nn.functional.ctc_loss"](
        rushlight.from_numpy(log_probs), rushlight.tensor([target]), [steps], [2], reduction="sum"
    )
    assert np.isclose(loss.item(), -np.log(total))


def test_istft_undoes_stft():
    x, t = both(RNG.standard_normal((2, 64)))
    window = rushlight.from_numpy(np.hanning(17)[:16])
    spectrum = rushlight.stft(t, 16, 4, window=window, return_complex=True)
    np.testing.assert_allclose(rushlight.istft(spectrum, 16, 4, window=window, length=64).numpy(), x, atol=1e-10)


@pytest.mark.parametrize("pivots", [[0, 2, 3], [1, 2, 4], [1, 2, -3], [-2, 2, 3]])
def test_ldl_solve_refuses_pivots_that_would_leave_the_matrix(pivots):
    factor, right = rushlight.eye(3), rushlight.ones(3, 1)
    with pytest.raises(RuntimeError, match="pivots must"):
        rushlight.linalg.ldl_solve(factor, rushlight.tensor(pivots, dtype=rushlight.int32), right)


@pytest.mark.parametrize("index", [-1, 9])
def test_cross_entropy_refuses_classes_out_of_range(index):
    with pytest.raises(IndexError, match="out of bounds for 9 classes"):
        EXPORTS["nn.functional.cross_entropy"](rushlight.zeros(2, 9), rushlight.tensor([0, index]))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 2, 3), (2, 0, 1, 3), (0, 1, 3, 2)])
def test_small_affine_maps_lie_in_memory_as_their_metadata_says(order):
    x = rushlight.arange(120.0).reshape(2, 3, 4, 5).permute(order)
    weight, bias = rushlight.ones(6, x.shape[-1]), rushlight.arange(6.0)
    result = linear(x, weight, bias)
    assert result.is_contiguous() and result.numpy().flags.c_contiguous
    assert result.tolist() == (x.numpy() @ weight.numpy().T + bias.numpy()).tolist()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("change", [
    lambda x: EXPORTS["nn.functional.adaptive_avg_pool2d"](x, 5),
    lambda x: prims.window_spread.apply((x,), ((bounds(11, 8), bounds(10, 7)), (11, 10))),
    lambda x: EXPORTS["nn.functional.interpolate"](x, (11, 13), mode="bilinear"),
    lambda x: EXPORTS["nn.functional.interpolate"](x, (11, 5), mode="bicubic"),
], ids=["adaptive_avg", "its gradient", "bilinear", "bicubic"])  # fmt: skip
def test_an_infinity_spoils_what_it_has_a_part_in(change, last):
    x = RNG.standard_normal((2, 3, 8, 7))
    spoiled, huge = x.copy(), x.copy()
    spoiled[0, 1, 2, 3], huge[0, 1, 2, 3] = np.inf, 1e6
    form = rushlight.channels_last if last else rushlight.contiguous_format
    given = [rushlight.from_numpy(v).contiguous(memory_format=form) for v in (x, huge, spoiled)]
    clean, far, got = [change(v).numpy() for v in given]
    near = ~np.isfinite(got)
    assert (near | (abs(far - clean) < 1e-9)).all() and 0 < near.sum() < near[0, 1].size
    np.testing.assert_allclose(got[~near], clean[~near], rtol=1e-12, atol=1e-12)


def test_masks_and_integers_count_as_numbers_beside_floats():
    """The dtype that both promote to decides, as in PyTorch."""
    numbers, mask = rushlight.tensor([[1.0, 2.0], [3.0, 5.0]]), rushlight.tensor([[True, False], [True, True]])
    for loss in [EXPORTS[f"nn.functional.{name}"] for name in ("mse_loss", "huber_loss", "smooth_l1_loss")]:
        assert loss(mask, numbers).item() == loss(mask.float(), numbers).item() == loss(numbers, mask).item()
    similar = rushlight.cosine_similarity
    assert similar(numbers, mask).tolist() == similar(numbers, mask.float()).tolist()
    with pytest.raises(RuntimeError, match="cosine_similarity: expected a floating-point tensor, got bool"):
        similar(mask, mask.long())


def test_pinv_takes_a_tolerance_for_each_result():
    """Also where the tolerances have more batch dimensions than the matrix; each row is what its number gives."""
    a, limits = rushlight.tensor([[1.0, 2.0], [3.0, 5.0]]), [0.0, 0.5]
    result = rushlight.linalg.pinv(a, rtol=rushlight.tensor(limits))
    assert result.tolist() == [rushlight.linalg.pinv(a, rtol=limit).tolist() for limit in limits]


def test_lu_takes_singular_matrices():
    packed, pivots = rushlight.lu(rushlight.ones(2, 2))
    assert packed.tolist() == [[1, 1], [1, 0]] and pivots.tolist() == [1, 2]
