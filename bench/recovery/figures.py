"""Order statistics and tables of samples."""

import json
import math
import os
from pathlib import Path


def percentile(samples: list[float], part: float) -> float | None:
    """The smallest sample that `part` of all do not exceed: with few samples the p99 is the largest one."""
    if not samples:
        return None
    return sorted(samples)[max(0, math.ceil(part * len(samples)) - 1)]


def summary(samples: list[float]) -> dict:
    return {"count": len(samples), "p50": percentile(samples, 0.5), "p99": percentile(samples, 0.99),
            "max": max(samples, default=None)}


def text_of(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def print_table(header: list[str], rows: list[list[object]]) -> None:
    cells = [header] + [[text_of(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for row in cells:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))).rstrip())


def write_json(path: Path, content: dict) -> None:
    """Whole or not at all, so that a file from before survives an interruption."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(unfinished, path)
