"""Mixed precision: dtypes inside a region, and the scaler's factor."""

from __future__ import annotations

import pytest

import rushlight
from rushlight import amp, nn
from rushlight.nn import functional as F
from rushlight.utils.checkpoint import checkpoint


@pytest.mark.parametrize("dtype", [rushlight.bfloat16, rushlight.float16])
def test_products_are_half_and_losses_are_not(dtype):
    layer, x = nn.Linear(3, 2), rushlight.randn(4, 3)
    with amp.autocast("cpu", dtype=dtype):
        y = layer(x)
        loss = F.cross_entropy(y, rushlight.tensor([0, 1, 1, 0]))
        assert y.dtype is dtype and (x @ x.t()).dtype is dtype and (x + x).dtype is rushlight.float32
        assert loss.dtype is F.mse_loss(y, y).dtype is y.prod().dtype is y.prod(0).dtype is rushlight.float32
        square, batch = rushlight.ones(3, 3), rushlight.ones(2, 3, 3)
        assert rushlight.addmm(square, square, square).dtype is rushlight.addbmm(square, batch, batch).dtype is dtype
        assert rushlight.addmm(square.to(dtype), square, square.to(dtype), beta=2).dtype is dtype
        assert rushlight.baddbmm(batch, batch, batch).dtype is dtype
        with amp.autocast("cpu", enabled=False):
            assert (x @ x.t()).dtype is rushlight.float32 and not amp.is_autocast_enabled("cpu")
        assert amp.is_autocast_enabled("cpu")
    assert layer(x).dtype is rushlight.float32
    loss.backward()
    assert layer.weight.grad.dtype is rushlight.float32


_WIDE = {
    "linalg.cholesky": lambda a: rushlight.linalg.cholesky(a),
    "linalg.solve": lambda a: rushlight.linalg.solve(a, a),
    "linalg.cond": rushlight.linalg.cond,
    "linalg.pinv": rushlight.linalg.pinv,
    "quantile": lambda a: a.quantile(0.5),
    "trace": rushlight.trace,
    "cdist": lambda a: rushlight.cdist(a, a),
    "fft.rfft": lambda a: rushlight.fft.rfft(a).real,
    "polar": lambda a: rushlight.polar(a, a).abs(),
    "view_as_complex": lambda a: rushlight.view_as_complex(a[:, :2].contiguous()).real,
    "avg_pool3d": lambda a: F.avg_pool3d(a[None, None], 1),
    "max_pool3d": lambda a: F.max_pool3d(a[None, None], 1),
    "mse_loss": lambda a: nn.MSELoss()(a, a + 1),
}


@pytest.mark.parametrize("name", _WIDE)
def test_functions_that_need_precision_take_halves_as_float32(name):
    """And nothing inside them is made narrow again: the result is that of float32, to the bit."""
    square = rushlight.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 5]])
    with amp.autocast("cpu"):
        result = _WIDE[name](square.bfloat16())
    assert result.dtype is rushlight.float32 and result.tolist() == _WIDE[name](square).tolist()


def test_products_take_both_half_types():
    x = rushlight.ones(2, 2)
    with amp.autocast("cpu"):
        assert (x.half() @ x.bfloat16()).dtype is F.prelu(x, x[0]).dtype is rushlight.bfloat16
        assert (x.double() @ x.double()).dtype is rushlight.float64


def test_a_parameter_is_cast_once_per_region_until_it_changes():
    weight, x = nn.Parameter(rushlight.ones(2, 2)), rushlight.ones(1, 2)
    with amp.autocast("cpu"):
        assert F.linear(x, weight).tolist() == [[2, 2]]
        with rushlight.no_grad():
            weight.mul_(2)
        y = F.linear(x, weight)
    assert y.tolist() == [[4, 4]]
    y.sum().backward()
    assert weight.grad.tolist() == [[1, 1], [1, 1]]


def test_decorated_functions_run_in_the_region():
    @amp.autocast("cpu")
    def square(x):
        return x @ x

    assert square(rushlight.eye(2)).dtype is rushlight.bfloat16


def test_custom_functions_choose_their_dtype():
    seen = []

    class Double(rushlight.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=rushlight.float32)
        def forward(ctx, x):
            seen.append((x.dtype, amp.is_autocast_enabled("cpu")))
            return 2 * x

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            return 2 * grad

    with amp.autocast("cpu"):
        Double.apply(rushlight.ones(2, dtype=rushlight.bfloat16, requires_grad=True)).sum().backward()
    assert seen == [(rushlight.float32, False)]


def test_unknown_devices_and_dtypes_are_refused():
    with pytest.raises(RuntimeError, match="unsupported"):
        amp.autocast("abacus")
    with pytest.raises(ValueError, match="half|float16"):
        amp.autocast("cpu", dtype=rushlight.float64)


def test_the_scaler_skips_bad_steps_and_adjusts():
    p = nn.Parameter(rushlight.ones(2))
    optimizer = rushlight.optim.SGD([p], lr=1.0)
    scaler = amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    p.grad = rushlight.tensor([1.0, float("inf")])
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [1, 1] and scaler.get_scale() == 4
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(p.sum()).backward()
        scaler.unscale_(optimizer)
        assert p.grad.tolist() == [1, 1]
        with pytest.raises(RuntimeError, match="already been called"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    assert p.tolist() == [-1, -1] and scaler.get_scale() == 8
    other = amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("inside", [True, False])
def test_checkpoints_compute_again_as_the_first_time(inside, use_reentrant):
    """With autocast on in the forward pass and off in the backward pass, and the other way round."""
    seen = []

    def f(x):
        y = x @ x
        seen.append(y.dtype)
        return y.exp().sum()

    x = rushlight.ones(2, 2, requires_grad=True)
    with rushlight.autocast("cpu", enabled=inside):
        y = checkpoint(f, x, use_reentrant=use_reentrant).float()
    with rushlight.autocast("cpu", enabled=not inside):
        y.backward()
    assert seen == [rushlight.bfloat16 if inside else rushlight.float32] * 2
