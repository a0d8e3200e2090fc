"""Train an LSTM to forecast carbon dioxide in the air of Mauna Loa a year ahead: statsmodels' copy of the measurements,
2284 weeks from 1958 to 2001.

It reads two years and writes the next one, both relative to the last week that it has seen. It learns from the time
before --split and is tested on the time after, against a simple rule: the year before again, plus its growth.
"""

import time

import numpy as np
from matplotlib.figure import Figure
from statsmodels.datasets import co2
from tqdm import trange

import rushlight as torch
import rushlight.nn.functional as F
from common import options
from rushlight import nn

YEAR = 52  # weeks
SEEN = 2 * YEAR


class Forecaster(nn.Module):
    """The state after the last week that was read tells all weeks of the next year at once."""

    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(1, width, batch_first=True)
        self.head = nn.Linear(width, YEAR)

    def forward(self, seen):
        _, (state, _) = self.lstm(seen.unsqueeze(-1))
        return self.head(state[-1])


def windows(series):
    """Every three years in a row, relative to the last week of the second: what is read, and what is to be written."""
    cut = torch.tensor(np.lib.stride_tricks.sliding_window_view(series, SEEN + YEAR).copy())
    cut = cut - cut[:, SEEN - 1:SEEN]
    return cut[:, :SEEN], cut[:, SEEN:]


def simple_rule(seen):
    """The year before again, plus its growth. The last week that was read is 0."""
    return seen[:, -YEAR:] - seen[:, -YEAR - 1:-YEAR]


def error(guess, truth):
    """The root of the mean squared error, in the units of the series."""
    return F.mse_loss(guess, truth).sqrt().item()


def draw(weeks, series, starts, guesses, losses, file):
    figure = Figure(figsize=(12, 4))
    left, right = figure.subplots(1, 2, width_ratios=(1, 3))
    left.semilogy(losses)
    left.set(title="Training", xlabel="step", ylabel="squared error")
    shown = slice(starts[0] - SEEN, None)
    right.plot(weeks[shown], series[shown], color="0.6", label="measured")
    for i, (start, guess) in enumerate(zip(starts, guesses)):
        right.plot(weeks[start:start + YEAR], guess, color="C1", linewidth=1, label=None if i else "forecast")
    right.set(title="A forecast at the end of every year", ylabel="CO2, parts per million")
    right.legend()
    figure.savefig(file, bbox_inches="tight")


def main():
    args = options(__doc__, "forecast", epochs=15, batch_size=64, lr=4e-3, width=48, split=1990)
    torch.manual_seed(args.seed)
    table = co2.load_pandas().data["co2"].interpolate()
    weeks, series = table.index.to_numpy(), table.to_numpy(dtype="float32")
    split = int((table.index.year < args.split).sum())
    (seen, ahead), (test_seen, test_ahead) = windows(series[:split]), windows(series[split - SEEN:])
    scale = ahead.std()
    model, losses, start = Forecaster(args.width), [], time.perf_counter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    steps = args.epochs * -(-len(seen) // args.batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps)

    @torch.compile(disable=args.no_compile)
    def step(seen, ahead):
        loss = F.mse_loss(model(seen), ahead)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    with trange(args.epochs, unit="epoch") as bar:
        for _ in bar:
            for batch in torch.randperm(len(seen)).split(args.batch_size):
                losses.append(step(seen[batch] / scale, ahead[batch] / scale))
                schedule.step()
            bar.set_postfix_str(f"loss {np.mean(losses[-10:]):.4f}")
    with torch.no_grad():
        guesses = model(test_seen / scale) * scale
    starts = range(split, len(series) - YEAR, YEAR)
    levels = [series[i - 1] + guesses[i - split].numpy() for i in starts]
    draw(weeks, series, starts, levels, losses, args.out / "forecast.png")
    simple = error(simple_rule(test_seen), test_ahead)
    print(f"error {error(guesses, test_ahead):.2f} ppm, simple rule {simple:.2f} ppm "
          f"after {time.perf_counter() - start:.1f} s; results are in {args.out}")


if __name__ == "__main__":
    main()
