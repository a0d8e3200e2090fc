#!/usr/bin/env python3
"""Write benchmarks/ops.txt: the operations that asv measures one by one."""

from pathlib import Path

LIST = Path(__file__).resolve().parent.parent / "benchmarks" / "ops.txt"


def names() -> list[str]:
    """All declared operations."""
    import rushlight.ops  # noqa: F401  declares them
    from rushlight.core.op import REGISTRY

    return sorted(REGISTRY)


if __name__ == "__main__":
    LIST.write_text("\n".join(names()) + "\n", encoding="utf-8")
