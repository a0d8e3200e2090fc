"""What the examples share: their options, and where their results go."""

import argparse
import pathlib


def options(doc, out, **defaults):
    """The command line: `name=default` makes `--name`, which must be positive. All examples take the last three."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help=" ")
    parser.add_argument("--seed", type=int, default=0, help="of the starting weights and batches")
    parser.add_argument("--no-compile", action="store_true", help="run the training step op by op")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs", out), help="folder for the picture")
    args = parser.parse_args()
    for name in defaults:
        if getattr(args, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be positive, got {getattr(args, name)}")
    args.out.mkdir(parents=True, exist_ok=True)
    return args
