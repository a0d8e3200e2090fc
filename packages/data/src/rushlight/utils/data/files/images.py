"""Images in folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import bridge
from rushlight.utils.data.dataset import Dataset
from rushlight.utils.data.files.optional import need

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif")


def image_tensor(image: Any) -> Tensor:
    """The uint8 tensor of shape (C, H, W) of a Pillow image, C = 3 for colour and 1 for grey."""
    array = np.array(image)
    return bridge.from_array(np.ascontiguousarray(array[None] if array.ndim == 2 else array.transpose(2, 0, 1)))


class ImageFolder(Dataset):
    """Images in one folder per class: `root/cat/1.png`, `root/dog/in/any/depth/2.jpg`.

    Sample `i` is (image, number of the class). Needs Pillow (`rushlight-data[images]`).

    Args:
        transform: called with the Pillow image. Without it the image becomes a uint8 tensor of shape (C, H, W).
        mode: Pillow's mode that images are converted to, "RGB" or "L" for example.
        extensions: files that count as images, by the end of their name in lower case.

    Attributes:
        classes: names of the classes, in order.
        class_to_idx: number of each class.
        samples: path and class number of each image.
        targets: class number of each image.

    Raises:
        FileNotFoundError: when there is no class, or a class without images.
        ImportError: without Pillow.
    """

    def __init__(
        self,
        root: Any,
        transform: Callable[[Any], Any] | None = None,
        mode: str = "RGB",
        extensions: Sequence[str] = EXTENSIONS,
    ) -> None:
        need("PIL.Image", "ImageFolder", "images")
        self.root = os.fspath(root)
        self.transform = transform
        self.mode = mode
        self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        if not self.classes:
            raise FileNotFoundError(f"ImageFolder: {root} has no folders; it needs one for each class")
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples: list[tuple[str, int]] = []
        for name, number in self.class_to_idx.items():
            paths = [str(path) for path in Path(root, name).rglob("*") if path.name.lower().endswith(tuple(extensions))]
            if not paths:
                raise FileNotFoundError(f"ImageFolder: class {name} has no files that end in {', '.join(extensions)}")
            self.samples += [(path, number) for path in sorted(paths)]
        self.targets = [number for _, number in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, target = self.samples[index]
        try:
            with need("PIL.Image", "ImageFolder", "images").open(path) as file:
                image = file.convert(self.mode)
        except Exception as error:
            error.add_note(f"This was the image {path}.")
            raise
        return (image_tensor(image) if self.transform is None else self.transform(image)), target
