"""Train a small CNN on real handwritten digits: scikit-learn's copy of the UCI set, 1797 images of 8x8 pixels.

Writes a checkpoint (and goes on from it with --resume), the curve of loss and accuracy, and a confusion matrix.
"""

import argparse
import pathlib
import time

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tqdm import tqdm

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64)
        self.fc1, self.fc2, self.dropout = nn.Linear(64 * 4 * 4, 128), nn.Linear(128, 10), nn.Dropout(0.25)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = self.dropout(F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)).flatten(1)
        return self.fc2(self.dropout(F.relu(self.fc1(x))))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS)
    for name, default in (("epochs", 12), ("batch-size", 64), ("lr", 2e-3), ("workers", 2), ("seed", 0)):
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"default {default}")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--no-compile", action="store_true", help="run the training step op by op")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--out", type=pathlib.Path, default="runs/digits", help="folder for checkpoint and picture")
    args = parser.parse_args()
    if min(args.epochs, args.batch_size, args.workers + 1) < 1 or args.lr <= 0:
        parser.error("--epochs, --batch-size and --lr must be positive, --workers not negative")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: no usable CUDA device here; leave it out to run on the CPU")
    if args.resume and not (args.out / "checkpoint.pt").exists():
        parser.error(f"--resume: there is no checkpoint in {args.out}; train once without it")
    return args


def train_epoch(model, step, loader, device, title):
    model.train()
    total, right, seen = 0.0, 0, 0
    with tqdm(loader, desc=title, unit=" samples", unit_scale=loader.batch_size, leave=False) as bar:
        for x, y in bar:
            loss, hits = step(x.to(device), y.to(device))
            total, right, seen = total + loss * len(y), right + hits, seen + len(y)
            bar.set_postfix_str(f"loss {total / seen:.4f}, accuracy {right / seen:.1%}")
    return total / seen


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    confusion = np.zeros((10, 10), int)
    for x, y in loader:
        np.add.at(confusion, (y.numpy(), model(x.to(device)).argmax(1).cpu().numpy()), 1)
    return float(confusion.trace() / confusion.sum()), confusion


def draw(history, confusion, file):
    left, right = (figure := Figure(figsize=(10, 4))).subplots(1, 2)
    for name in ("training loss", "test accuracy"):
        left.plot(range(1, len(history) + 1), [epoch[name] for epoch in history], label=name)
    left.set(xlabel="epoch", title="Training")
    left.legend()
    right.imshow(confusion, cmap="Blues")
    right.set(xlabel="guess", ylabel="digit", title="Confusion", xticks=range(10), yticks=range(10))
    for row, column in np.argwhere(confusion):
        right.text(column, row, confusion[row, column], ha="center", va="center", color="w" if row == column else "k")
    figure.savefig(file, bbox_inches="tight")


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint = args.out / "checkpoint.pt"
    data, target = load_digits(return_X_y=True)
    digits = TensorDataset(torch.tensor(data / 16, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(target))
    train, test = random_split(digits, [0.8, 0.2], torch.Generator().manual_seed(args.seed))
    train, test = DataLoader(train, args.batch_size, shuffle=True, num_workers=args.workers), DataLoader(test, 256)
    model, history, start = Net().to(args.device), [], time.perf_counter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    if args.resume:
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        history = state["history"]
    @torch.compile(disable=args.no_compile)
    def step(x, y):
        loss = F.cross_entropy(output := model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item(), (output.argmax(1) == y).sum().item()
    for epoch in range(len(history) + 1, args.epochs + 1):
        loss = train_epoch(model, step, train, args.device, f"epoch {epoch}/{args.epochs}")
        accuracy, _ = evaluate(model, test, args.device)
        history.append({"training loss": loss, "test accuracy": accuracy})
        print(f"epoch {epoch:2d}  loss {loss:.4f}  test accuracy {accuracy:.2%}")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "history": history}, checkpoint)
    accuracy, confusion = evaluate(model, test, args.device)
    draw(history, confusion, args.out / "digits.png")
    print(f"test accuracy {accuracy:.2%} after {time.perf_counter() - start:.1f} s; results are in {args.out}")


if __name__ == "__main__":
    main()
