"""Functions that stand apart from the big families."""

import pickle

import numpy as np
import pytest

import rushlight
from rushlight._higher_order_ops import scan
from rushlight.core.front import EXPORTS


@pytest.mark.parametrize("reduce, fold", [("sum", np.sum), ("mean", np.mean), ("prod", np.prod), ("max", np.max)])
def test_segments_are_reduced_one_by_one(reduce, fold):
    data = np.arange(1.0, 13.0).reshape(2, 6)
    lengths = [[2, 1, 3], [1, 4, 1]]
    got = rushlight.segment_reduce(rushlight.tensor(data), reduce, lengths=rushlight.tensor(lengths), axis=1)
    wanted = [[fold(part) for part in np.split(row, np.cumsum(n)[:-1])] for row, n in zip(data, lengths)]
    assert got.tolist() == wanted
    offsets = rushlight.tensor([0, 2, 2, 6])
    empty = rushlight.segment_reduce(rushlight.tensor(data[0]), reduce, offsets=offsets, initial=5.0)[1]
    assert empty == 5


def test_segments_must_cover_the_data():
    with pytest.raises(RuntimeError, match="sum to 4"):
        rushlight.segment_reduce(rushlight.ones(4), "sum", lengths=rushlight.tensor([5, -1]))


def test_native_norms_return_their_statistics():
    x = rushlight.arange(24.0).reshape(2, 4, 3).sin()
    for result, mean, rstd, dims, shape in (
        (*rushlight.native_layer_norm(x, (4, 3), None, None, 0.0), (1, 2), (2, 1, 1)),
        (*rushlight.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-9), (0, 2), (4,)),
    ):
        assert mean.shape == rstd.shape == shape and result.shape == x.shape
        assert np.allclose(mean, np.mean(x.numpy(), dims).reshape(shape), atol=1e-6)
        assert np.allclose(rstd, 1 / np.std(x.numpy(), dims).reshape(shape), rtol=1e-5)
    _, mean, rstd = rushlight.native_group_norm(x, None, None, 2, 4, 3, 2, 0.0)
    groups = x.numpy().reshape(2, 2, 6)
    assert np.allclose(mean, groups.mean(-1), atol=1e-6) and np.allclose(rstd, 1 / groups.std(-1), rtol=1e-5)


def test_hash_is_the_exclusive_or_of_the_bits():
    x = rushlight.tensor([[1.5, -2.0], [0.0, 3.25]], dtype=rushlight.float16)
    words = np.asarray([[1.5, -2.0], [0.0, 3.25]]).view(np.uint64)
    assert rushlight.hash_tensor(x, 1).tolist() == (words[:, 0] ^ words[:, 1]).tolist()
    with pytest.raises(RuntimeError, match="mode"):
        rushlight.hash_tensor(x, mode=1)


def test_control_flow_runs_eagerly():
    start = (rushlight.tensor(0), rushlight.ones(2))
    assert rushlight.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, 2 * x), start)[1].tolist() == [8, 8]
    made = scan(lambda c, x: (c + x, rushlight.stack([c, x, x])), rushlight.zeros(2), rushlight.ones(2, 4), dim=-1)[1]
    assert made.shape == (3, 4, 2) and made[0].tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    with pytest.raises(RuntimeError, match="one element"):
        rushlight.cond(rushlight.tensor([True, False]), rushlight.sin, rushlight.cos, (rushlight.ones(1),))


def test_absent_layouts_say_so():
    assert rushlight.zeros(2, layout=rushlight.strided).layout is rushlight.strided
    assert pickle.loads(pickle.dumps(rushlight.sparse_coo)) is rushlight.sparse_coo
    for call in (lambda: rushlight.zeros(2, layout=rushlight.sparse_csr),
                 lambda: rushlight.ones_like(rushlight.zeros(2), layout=rushlight.sparse_coo)):
        with pytest.raises(NotImplementedError, match="sparse"):
            call()


def test_integer_ranges_truncate_as_pytorch_does():
    assert rushlight.arange(0.0, -8.000001, -4.0, dtype=rushlight.int64).tolist() == [0, -4]
    assert rushlight.arange(0.0, -8.000001, -4.0, dtype=rushlight.int32).tolist() == [0, -4, -8]
    assert rushlight.arange(5, 0, -1.5, dtype=rushlight.int64).tolist() == [5, 4, 3, 2, 1]


def test_bool_tensors_add_with_bool_factors_and_do_not_subtract():
    mask = rushlight.tensor([True, False])
    assert rushlight.add(mask, mask, alpha=2).tolist() == [True, False]
    for call in (lambda: 1 - mask, lambda: mask - mask, lambda: rushlight.ones(2).sub_(mask),
                 lambda: rushlight.add(rushlight.ones(2), 1, alpha=True)):
        with pytest.raises(RuntimeError, match="bool"):
            call()


def test_integers_cannot_be_filled_with_complex_numbers():
    with pytest.raises(RuntimeError, match="complex"):
        rushlight.full_like(rushlight.tensor([1]), 1j)


def test_matrices_without_elements_have_norm_and_condition_zero():
    empty = rushlight.zeros(2, 0, 0)
    for order in (2, -2, 1, float("inf"), "fro", "nuc"):
        assert rushlight.linalg.cond(empty, order).tolist() == [0, 0]
    assert rushlight.linalg.matrix_norm(rushlight.zeros(0, 3), 2) == 0


@pytest.mark.parametrize("shape", [(3, 2), (3, 2, 4), (2,)])
def test_a_singular_matrix_spoils_no_other_of_its_batch(shape):
    a = rushlight.tensor([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    inverse, info = rushlight.linalg.inv_ex(a)
    assert info.tolist() == [0, 2, 0]
    assert inverse[1].isnan().all() and inverse[::2].equal(rushlight.linalg.inv(a[::2]))
    b = rushlight.rand(shape)
    result, info = rushlight.linalg.solve_ex(a, b)
    assert info.tolist() == [0, 2, 0] and result[1].isnan().all()
    assert result[::2].equal(rushlight.linalg.solve(a[::2], b if b.ndim == 1 else b[::2]))
    with pytest.raises(rushlight.linalg.LinAlgError, match="singular"):
        rushlight.linalg.inv_ex(a, check_errors=True)


def test_frequencies_are_not_integers():
    assert rushlight.fft.fftfreq(5, 0.5).tolist() == pytest.approx(np.fft.fftfreq(5, 0.5))
    assert rushlight.fft.rfftfreq(4).tolist() == pytest.approx(np.fft.rfftfreq(4))
    with pytest.raises(RuntimeError, match="floating point"):
        rushlight.fft.fftfreq(4, dtype=rushlight.int32)


def test_xlogy_of_zero_is_zero_where_the_logarithm_is_not_a_number():
    found = rushlight.xlogy(rushlight.zeros(3), rushlight.tensor([-3.0, 0.0, float("nan")])).tolist()
    assert found[:2] == [0, 0] and np.isnan(found[2])


def test_random_tensors_like_another_have_its_layout():
    x = rushlight.zeros(2, 3, 4, 5).contiguous(memory_format=rushlight.channels_last)
    made = (rushlight.rand_like(x), rushlight.randn_like(x), rushlight.randint_like(x, 5), rushlight.complex(x, x))
    for like in made:
        assert like.stride() == x.stride()
    assert rushlight.rand(2, dtype=rushlight.complex64).imag.shape == (2,)


@pytest.mark.parametrize(
    "actual, expected, text",
    [
        ([1, 2], [1, 3], "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)\n"
                         "Greatest absolute difference: 1 at index (1,)\nGreatest relative difference: 0.33"),
        ([True], [False], "Tensor-likes are not equal!"),
        ([1.0], [1.5], "Tensor-likes are not close!"),
    ],
)  # fmt: skip
def test_assert_close_says_what_differs(actual, expected, text):
    with pytest.raises(AssertionError) as found:
        rushlight.testing.assert_close(rushlight.tensor(actual), rushlight.tensor(expected))
    assert str(found.value).startswith(text)
    with pytest.raises(AssertionError, match=r"The failure occurred for item \[1\]\['a'\]"):
        rushlight.testing.assert_close([0, {"a": True}], [0, {"a": False}])


@pytest.mark.parametrize("dim", range(4))
def test_joined_tensors_keep_channels_last(dim):
    x = rushlight.rand(2, 3, 4, 5)
    y = x.contiguous(memory_format=rushlight.channels_last)
    joined = rushlight.cat([y, 2 * y, rushlight.zeros(0)], dim)
    assert joined.is_contiguous(memory_format=rushlight.channels_last)
    assert joined.tolist() == rushlight.cat([x, 2 * x], dim).tolist()
    assert rushlight.cat([x, y], dim).is_contiguous()


def test_joined_tensors_lie_as_their_metadata_says():
    x = rushlight.arange(4.0)
    joined = rushlight.cat([x[None], x[None] + 4, x.expand(2, 4)[:0]])  # the last one has no elements, and stride 0
    assert joined.stride() == (4, 1) and joined.as_strided((8,), (1,)).tolist() == list(range(8))


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "float32", "complex128"])
def test_long_rows_are_joined_whatever_their_lengths(dtype):
    rows = np.random.default_rng(0).normal(scale=50, size=(200, 3000)).astype(dtype)
    parts = [rushlight.tensor(part) for part in np.split(rows, [700, 733, 733, 2001], axis=1)]
    assert np.array_equal(rushlight.cat(parts, 1).numpy(), rows)


def test_half_types_round_the_added_product_once():
    c, a, b = (rushlight.randn(*shape).bfloat16() for shape in ((3, 4, 6), (3, 4, 5), (3, 5, 6)))
    exact = (0.2 * c.float() + 0.6 * (a.float() @ b.float())).bfloat16()
    found = rushlight.baddbmm(c, a, b, beta=0.2, alpha=0.6)
    assert (found == exact).float().mean() > 0.95  # the rest lies between two numbers, within float32's own rounding


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.bfloat16, rushlight.complex64])
def test_a_weight_of_0_takes_its_part_out_of_a_sum_of_products(dtype, value):
    one, bad = rushlight.ones(2, 2, dtype=dtype), rushlight.full((2, 2), value, dtype=dtype)
    for f, start, factor, other in (
        (rushlight.addmm, one, one, one), (rushlight.addmv, one[0], one, one[0]),
        (rushlight.baddbmm, one[None], one[None], one[None]), (rushlight.addbmm, one, one[None], one[None]),
    ):  # fmt: skip
        assert (f(start, bad.expand_as(factor), other, alpha=0) == 1).all()
        assert (f(bad[0].expand_as(start), factor, other, beta=0) == 2).all()
        assert (f(bad[0].expand_as(start), bad.expand_as(factor), other, beta=0, alpha=0) == 0).all()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings_say_what_they_are_made_of(mode):
    table = rushlight.tensor([[0.0, 9.0], [5.0, 1.0], [2.0, 3.0]])
    indices, offsets = rushlight.tensor([0, 1, 2, 1]), rushlight.tensor([0, 2, 2])
    result, bag, sizes, winners = rushlight.embedding_bag(
        table, indices, offsets, mode=("sum", "mean", "max").index(mode), padding_idx=1
    )
    wanted = EXPORTS["nn.functional.embedding_bag"](indices, table, offsets, mode=mode, padding_idx=1)
    assert result.equal(wanted) and bag.tolist() == [0, 0, 2, 2] and sizes.tolist() == [1, 0, 1]
    assert winners.tolist() == ([[0, 0], [0, 0], [2, 2]] if mode == "max" else [1, 0, 1])


def test_out_of_functions_on_layers():
    x, weight, into = rushlight.rand(2, 3), rushlight.rand(4, 3), rushlight.zeros(2, 4)
    assert EXPORTS["nn.functional.linear"](x, weight, out=into) is into
    assert into.equal(EXPORTS["nn.functional.linear"](x, weight))
    image, pooled = rushlight.rand(1, 2, 4, 4), rushlight.zeros(1, 2, 2, 2)
    assert EXPORTS["nn.functional.avg_pool2d"](image, 2, out=pooled) is pooled
    assert pooled.equal(EXPORTS["nn.functional.avg_pool2d"](image, 2))


def test_the_former_assert_close():
    with pytest.warns(FutureWarning, match="assert_close"):
        rushlight.testing.assert_allclose([1.0, np.nan], rushlight.tensor([1.00001, np.nan], dtype=rushlight.float64))
    with pytest.warns(FutureWarning, match="assert_close"), pytest.raises(AssertionError, match="not close"):
        rushlight.testing.assert_allclose(1.0, 1.01)


def test_gelu_by_tanh_keeps_its_digits_where_tanh_is_near_minus_one():
    x = np.linspace(-5, 5, 5001, dtype=np.float32)
    inner = np.sqrt(2 / np.pi) * (x.astype(float) + 0.044715 * x.astype(float) ** 3)
    wanted = x / (1 + np.exp(-2 * inner))
    for values, part in ((x, slice(None)), (x[:300], slice(300))):  # compiled, and by numpy
        got = EXPORTS["nn.functional.gelu"](rushlight.tensor(values), approximate="tanh").numpy()
        assert np.allclose(got, wanted[part], rtol=3e-6, atol=0)


def test_what_a_module_loads_in_the_place_of_a_tensor():
    x, other = rushlight.zeros(2), rushlight.ones(2)
    loaded = x.module_load(other)
    assert loaded is not x and loaded.data_ptr() == x.data_ptr() and x.tolist() == [1, 1]
    assert x.module_load(other, assign=True).data_ptr() == other.data_ptr()
    with pytest.raises(RuntimeError, match="does not broadcast"):
        x.module_load(rushlight.ones(3))


def test_a_position_that_is_nan_leaves_the_others_alone():
    sample = rushlight.core.front.EXPORTS["nn.functional.grid_sample"]
    grid = rushlight.tensor([[[[0.0, 0.0], [float("nan"), 0.0], [1.0, 1.0]]]])
    found = sample(rushlight.arange(9.0).view(1, 1, 3, 3), grid, "nearest", align_corners=True)
    assert found[0, 0, 0, ::2].tolist() == [4, 8]


def test_foreach_functions_are_the_method_for_each_tensor():
    x = [rushlight.tensor([0.5, 0.25]), rushlight.tensor([[0.75]])]
    y = [rushlight.tensor([0.5, 0.75]), rushlight.tensor([[0.125]])]

    def lists(found):
        return [part.tolist() for part in found]

    for name, value in EXPORTS.items():
        if name.startswith("_foreach_") and name.endswith("_"):
            method = {"maximum_": "clamp_min_", "minimum_": "clamp_max_"}.get(name[9:], name[9:])
            given = (y, y) if "addc" in name or "lerp" in name else (y,) if "takes no" not in value.__doc__ else ()
            copies = [part.clone() for part in x]
            wanted = [getattr(part.clone(), method)(*others) for part, *others in zip(x, *given)]
            assert value(copies, *given) is copies and lists(copies) == lists(wanted), name
            if name[:-1] in EXPORTS:
                assert lists(EXPORTS[name[:-1]](x, *given)) == lists(wanted), name
    assert lists(rushlight._foreach_add(x, y, alpha=2)) == [[1.5, 1.75], [[1.0]]]
    assert lists(rushlight._foreach_mul(x, [2.0, 4.0])) == lists(rushlight._foreach_mul(x, scalars=[2.0, 4.0]))
    assert lists(rushlight._foreach_mul(x, rushlight.tensor(2.0))) == lists(rushlight._foreach_add(x, x))
    assert lists(rushlight._foreach_addcdiv(x, y, y, rushlight.tensor([1.0, 2.0]))) == [[1.5, 1.25], [[2.75]]]
    assert lists(rushlight._foreach_pow(2, [x[1] * 0])) == [[[1.0]]]
    assert lists(rushlight._foreach_norm(y, 1)) == [1.25, 0.125] and lists(rushlight._foreach_max(y)) == [0.75, 0.125]
    assert lists(rushlight._foreach_powsum(y)) == [0.8125, 0.015625] and lists(rushlight._foreach_clone(x)) == lists(x)


def test_foreach_functions_refuse_what_does_not_fit():
    x = [rushlight.ones(2), rushlight.ones(3)]
    add, lerp = rushlight._foreach_add, rushlight._foreach_lerp
    for call, args, kwargs in (
        (add, (x[0], 1), {}), (add, (x, "x"), {}), (add, (x,), {}), (add, (x, 1), {"alpha": 2}), (add, ([1], 1), {}),
        (add, (x, [1, x[0]]), {}), (lerp, (x, 1.0, 0.5), {}), (add, (x, 1), {"weight": 1}),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="_foreach"):
            call(*args, **kwargs)
    for call, args in ((add, ([], 1)), (add, (x, x[:1])), (add, (x, [1, 2, 3])), (add, (x, x[0])), (lerp, (x, x, [1]))):
        with pytest.raises(RuntimeError, match="_foreach"):
            call(*args)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_may_cut_all_off(mode):
    pad = EXPORTS["nn.functional.pad"]
    assert pad(rushlight.ones(1, 3, 4, 5), (-5, 0, 1, 1), mode).shape == (1, 3, 6, 0)
    assert pad(rushlight.ones(2, 3, 4), (1, 1, -1, -2), mode).shape == (2, 0, 6)
    if mode in ("reflect", "replicate"):  # these leave at least one of the sizes that they change
        with pytest.raises(RuntimeError, match="nor may all be 0"):
            pad(rushlight.ones(1, 3, 4), (-2, -2), mode)
    with pytest.raises(RuntimeError):
        pad(rushlight.ones(1, 3, 4), (-3, -2), mode)


def test_power_pooling_of_infinite_order_takes_magnitudes():
    x = rushlight.tensor([[[1.0, 2.0, -3.0, 4.0]]])
    for order, wanted in ((float("inf"), [2, 4]), (-float("inf"), [1, 3])):
        assert EXPORTS["nn.functional.lp_pool1d"](x, order, 2)[0, 0].tolist() == wanted
        assert EXPORTS["nn.functional.lp_pool2d"](x, order, (1, 2))[0, 0].tolist() == wanted


@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_sampling_at_no_position_takes_the_edge(padding):
    nan, inf = float("nan"), float("inf")
    image = rushlight.arange(1.0, 10).reshape(1, 1, 3, 3)
    grid = rushlight.tensor([[nan, 0.0], [0.0, nan], [nan, nan], [-inf, 0.0]]).reshape(1, 1, 4, 2)
    found = EXPORTS["nn.functional.grid_sample"](image, grid, "bilinear", padding, True)
    assert found.flatten().tolist() == [4, 2, 1, 4]
