"""Train a variational autoencoder on handwritten digits: scikit-learn's copy of the UCI set, 1797 images of 8x8 pixels.

It learns to write an image as two numbers and to draw it again. The picture shows test images and what became of them,
where the numbers of each digit lie, and what the network draws from numbers all over the plane.
"""

import time

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tqdm import trange

import rushlight as torch
import rushlight.nn.functional as F
from common import options
from rushlight import nn
from rushlight.distributions import Normal, kl_divergence
from rushlight.utils.data import DataLoader, TensorDataset, random_split

PIXELS = 64


class VAE(nn.Module):
    def __init__(self, width, latent):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(PIXELS, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(
            nn.Linear(latent, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, PIXELS))

    def encode(self, x):
        """What the network knows of an image's numbers: a normal distribution of each."""
        mean, log_scale = self.encoder(x).chunk(2, dim=-1)
        return Normal(mean, log_scale.exp())

    def forward(self, x):
        code = self.encode(x)
        return self.decoder(code.rsample()), code


def loss_parts(model, x):
    """Nats per image: to describe it given its numbers, and to describe the numbers (Kingma and Welling 2013)."""
    logits, code = model(x)
    drawing = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    return drawing, kl_divergence(code, Normal(0.0, 1.0)).sum() / len(x)


@torch.no_grad()
def evaluate(model, images):
    return sum(part.item() for part in loss_parts(model, images))


def tiles(images, columns):
    """Images of 8x8 pixels, side by side as one."""
    rows = images.reshape(-1, columns, 8, 8)
    return rows.permute(0, 2, 1, 3).reshape(len(rows) * 8, columns * 8).numpy()


@torch.no_grad()
def draw(model, images, labels, file, columns=10):
    figure = Figure(figsize=(13, 4))
    pairs, codes, plane = figure.subplots(1, 3)
    mean = model.encode(images).mean
    some = images[:4 * columns].view(4, columns, PIXELS)
    again = model.decoder(mean)[:4 * columns].sigmoid().view(4, columns, PIXELS)
    pairs.imshow(tiles(torch.stack((some, again), dim=1).view(-1, PIXELS), columns), cmap="gray_r")
    pairs.set(title="Images, and below what became of them")
    dots = codes.scatter(*mean[:, :2].T.numpy(), c=labels.numpy(), cmap="tab10", s=8)
    codes.set(title="Where digits lie", xlabel="first number", ylabel="second number")
    figure.colorbar(dots, ax=codes, ticks=range(10))
    # Equal steps in probability, so that every drawing is as likely as the next one.
    steps = Normal(0.0, 1.0).icdf(torch.linspace(0.03, 0.97, 2 * columns))
    grid = torch.zeros(len(steps) ** 2, mean.shape[1])
    grid[:, :2] = torch.cartesian_prod(-steps, steps).flip(1)
    plane.imshow(tiles(model.decoder(grid).sigmoid(), len(steps)), cmap="gray_r")
    plane.set(title="Drawings from the plane")
    for axes in (pairs, plane):
        axes.set_axis_off()
    figure.savefig(file, bbox_inches="tight")


def main():
    args = options(__doc__, "vae", epochs=60, batch_size=64, lr=2e-3, width=256, latent=2)
    if args.latent < 2:
        raise SystemExit("--latent must be at least 2: the picture shows the first two")
    torch.manual_seed(args.seed)
    pixels, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels.astype(np.int64)))
    train, test = random_split(data, [0.8, 0.2], torch.Generator().manual_seed(args.seed))
    loader = DataLoader(train, args.batch_size, shuffle=True)
    images, digits = test[list(range(len(test)))]
    model, start = VAE(args.width, args.latent), time.perf_counter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    @torch.compile(disable=args.no_compile)
    def step(x):
        drawing, numbers = loss_parts(model, x)
        optimizer.zero_grad()
        (drawing + numbers).backward()
        optimizer.step()
        return drawing.item(), numbers.item()

    with trange(args.epochs, unit="epoch") as bar:
        for _ in bar:
            for x, _ in loader:
                drawing, numbers = step(x)
            bar.set_postfix_str(f"drawing {drawing:.2f}, numbers {numbers:.2f}")
    loss = evaluate(model, images)
    draw(model, images, digits, args.out / "vae.png")
    print(f"test loss {loss:.2f} nats per image after {time.perf_counter() - start:.1f} s; results are in {args.out}")


if __name__ == "__main__":
    main()
