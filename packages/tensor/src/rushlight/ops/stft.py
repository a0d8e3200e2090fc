"""Short-time Fourier transform and its inverse."""

from __future__ import annotations

import numpy as np

from rushlight.core import checks
from rushlight.core.errors import shape_text, warn_caller
from rushlight.core.front import extend_tensor, function
from rushlight.core.tensor import Tensor
from rushlight.ops.create import from_numpy
from rushlight.ops.fft import c2c_op, c2r_op, r2c_op
from rushlight.ops.padding import pad, pad_constant
from rushlight.ops.unfold import col2im_op


def _window(name: str, window: Tensor | None, win_length: int, n_fft: int, like: Tensor) -> Tensor:
    """The window, ones by default, centred among zeros in n_fft elements."""
    if window is None:
        ones = np.ones(win_length, like.dtype.to_real().numpy)
        window = from_numpy(ones).to(like.device)
    elif window.ndim != 1 or window.shape[0] != win_length:
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{shape_text(window.shape)}"
        )
    if win_length == n_fft:
        return window
    left = (n_fft - win_length) // 2
    return pad_constant(window, (left, n_fft - win_length - left))


def _lengths(name: str, n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int]:
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={win}")
    return hop, win


@function(method=False, out=False, autocast="wide")
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Fourier transforms of overlapping windows: `X[f, t] = sum of window[k] input[t hop + k] exp(-2 pi i f k /
    n_fft)`.

    Shapes: `(N, L)` or `(L,)` -> `(N, F, frames)` or `(F, frames)`, F = n_fft // 2 + 1 when one-sided (real input),
    else n_fft. `center` pads by
    n_fft // 2 on both sides. Raises RuntimeError for sizes that do not fit, or real input without `return_complex`.
    """
    hop, win = _lengths("stft", n_fft, hop_length, win_length)
    complex_in = input.dtype.is_complex or window is not None and window.dtype.is_complex
    if return_complex is None:
        if not complex_in:
            raise RuntimeError("stft: return_complex is required for real inputs; pass return_complex=True")
        return_complex = True
    elif not return_complex:
        warn_caller("stft: results without return_complex=True are deprecated; use view_as_real on the complex result")
    if not input.dtype.is_inexact or input.ndim not in (1, 2):
        raise RuntimeError(
            f"stft: expected a 1D or 2D tensor of floating-point or complex values, got {input.dtype.name} of shape "
            f"{shape_text(input.shape)}"
        )
    x = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft: align_to_window should only be set when center=False")
        half = n_fft // 2
        x = (
            pad(x.unsqueeze(1), (half, half), pad_mode).squeeze(1)
            if pad_mode != "constant"
            else pad_constant(x, (half, half))
        )
    if not 0 < n_fft <= x.shape[1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {x.shape[1]}, but got n_fft={n_fft}")
    frames = x.unfold(1, n_fft, hop) * _window("stft", window, win, n_fft, x)
    scaling = 0.5 if normalized else 0.0
    if complex_in:
        if onesided:
            raise RuntimeError("stft: cannot have onesided output if window or input is complex")
        spectrum = c2c_op.apply((frames.to(frames.dtype.to_complex()),), ((2,), scaling, True))
    elif onesided is None or onesided:
        spectrum = r2c_op.apply((frames,), ((2,), scaling))
    else:
        spectrum = c2c_op.apply((frames.to(frames.dtype.to_complex()),), ((2,), scaling, True))
    spectrum = spectrum.transpose(1, 2)
    if input.ndim == 1:
        spectrum = spectrum.squeeze(0)
    return spectrum if return_complex else spectrum.view_as_real()


@function(method=False, out=False)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal of a short-time Fourier transform: windows added up and divided by the sum of squared windows.

    Shapes: `(N, F, frames)` or `(F, frames)` complex -> `(N, L)` or `(L,)`. Raises RuntimeError for sizes that do not
    fit, or when the windows
    leave gaps.
    """
    hop, win = _lengths("istft", n_fft, hop_length, win_length)
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft: requires a complex-valued input tensor matching the output from stft with return_complex=True"
        )
    if input.ndim not in (2, 3) or not input.numel():
        raise RuntimeError(
            f"istft: expected a non-empty tensor with 2 or 3 dimensions, got shape {shape_text(input.shape)}"
        )
    x = (input if input.ndim == 3 else input.unsqueeze(0)).transpose(1, 2)
    n, frames, bins = x.shape
    onesided = (bins != n_fft) if onesided is None else onesided
    if bins != (n_fft // 2 + 1 if onesided else n_fft):
        raise RuntimeError(
            f"istft: expected the frequency dimension to match n_fft={n_fft} and onesided={onesided}, but got {bins}"
        )
    if return_complex and onesided:
        raise RuntimeError("istft: cannot have onesided output if window or input is complex; pass onesided=False")
    if hop > win:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, got hop_length={hop} and win_length={win}")
    scaling = 0.5 if normalized else 1.0
    if return_complex:
        pieces = c2c_op.apply((x,), ((2,), scaling, False))
    else:  # a real signal is in the first half of the spectrum
        pieces = c2r_op.apply((x.narrow(2, 0, n_fft // 2 + 1),), ((2,), scaling, n_fft))
    weights = _window("istft", window, win, n_fft, pieces)
    total = n_fft + hop * (frames - 1)
    signal = _overlapped(pieces * weights, total, n_fft, hop)
    squares = (weights * weights).expand(1, frames, n_fft)
    envelope = _overlapped(squares, total, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start if center else total
    kept = min(end, total) - start
    signal, envelope = signal.narrow(1, start, kept), envelope.narrow(1, start, kept)
    if checks.found(envelope.detach().abs() <= 1e-11):
        raise RuntimeError("istft: window overlap add min is not larger than 1e-11: the windows leave gaps")
    signal = signal / envelope
    if end > total:
        signal = pad_constant(signal, (0, end - total))
    return signal if input.ndim == 3 else signal.squeeze(0)


def _overlapped(pieces: Tensor, total: int, n_fft: int, hop: int) -> Tensor:
    """Frames `(N, frames, n_fft)` added up at steps of hop: `(N, total)`."""
    columns = pieces.transpose(1, 2)
    added = col2im_op.apply((columns,), ((1, total), (1, n_fft), (1, 1), (0, 0), (1, hop)))
    return added.reshape(pieces.shape[0], total)


extend_tensor("stft", stft)
extend_tensor("istft", istft)
