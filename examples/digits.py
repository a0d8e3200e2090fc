"""Train a small CNN on real handwritten digits (scikit-learn's copy of the UCI set: 1797 images of 8x8 pixels, no download).

Writes a checkpoint (and goes on from it with --resume), the curve of loss and accuracy, and a confusion matrix.
"""

import argparse
import os
import time

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

import rushlight as torch
from rushlight import nn
from rushlight.utils.data import DataLoader, TensorDataset, random_split

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  after the choice of a backend without windows


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25))
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=2, help="processes that load data")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-compile", action="store_true", help="run the model op by op")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--out", default="runs/digits", help="folder for checkpoint and pictures")
    args = parser.parse_args()
    if args.epochs < 1 or args.batch_size < 1 or args.workers < 0 or args.lr <= 0:
        parser.error("--epochs, --batch-size and --lr must be positive, --workers not negative")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: no usable CUDA device here; leave it out to run on the CPU")
    return args


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    confusion = np.zeros((10, 10), int)
    for images, labels in loader:
        guesses = model(images.to(device)).argmax(1).cpu()
        np.add.at(confusion, (labels.numpy(), guesses.numpy()), 1)
    return confusion.trace() / confusion.sum(), confusion


def pictures(history, confusion, folder):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    left.plot([h["loss"] for h in history], label="training loss")
    left.plot([h["accuracy"] for h in history], label="test accuracy")
    left.set(xlabel="epoch", title="Training")
    left.legend()
    right.imshow(confusion, cmap="Blues")
    right.set(xlabel="guess", ylabel="digit", title="Confusion", xticks=range(10), yticks=range(10))
    for row, column in np.argwhere(confusion):
        right.text(column, row, confusion[row, column], ha="center", va="center", fontsize=7)
    figure.savefig(os.path.join(folder, "digits.png"), bbox_inches="tight")


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    data, target = load_digits(return_X_y=True)
    images = torch.tensor(data, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    train, test = random_split(TensorDataset(images, torch.tensor(target)), [0.8, 0.2], torch.Generator().manual_seed(args.seed))
    train_loader = DataLoader(train, args.batch_size, shuffle=True, num_workers=args.workers, persistent_workers=args.workers > 0)
    test_loader = DataLoader(test, 256)

    model = Net().to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    os.makedirs(args.out, exist_ok=True)
    checkpoint, history = os.path.join(args.out, "checkpoint.pt"), []
    if args.resume:
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        history = state["history"]
    step_model = model if args.no_compile else torch.compile(model)

    start = time.perf_counter()
    for epoch in range(len(history), args.epochs):
        model.train()
        total, seen, began = 0.0, 0, time.perf_counter()
        with tqdm(train_loader, desc=f"epoch {epoch + 1}/{args.epochs}", unit="batch", leave=False) as bar:
            for x, y in bar:
                loss = criterion(step_model(x.to(args.device)), y.to(args.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total, seen = total + loss.item() * len(y), seen + len(y)
                bar.set_postfix(loss=f"{total / seen:.4f}", samples_per_s=f"{seen / (time.perf_counter() - began):.0f}")
        accuracy, confusion = evaluate(step_model, test_loader, args.device)
        history.append({"loss": total / seen, "accuracy": float(accuracy)})
        print(f"epoch {epoch + 1:2d}  loss {total / seen:.4f}  test accuracy {accuracy:.2%}  {seen / (time.perf_counter() - began):.0f} samples/s")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "history": history}, checkpoint)
    accuracy, confusion = evaluate(step_model, test_loader, args.device)
    pictures(history, confusion, args.out)
    print(f"test accuracy {accuracy:.2%} after {time.perf_counter() - start:.1f} s; checkpoint and picture are in {args.out}")


if __name__ == "__main__":
    main()
