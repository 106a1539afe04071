#!/usr/bin/env python3
"""The table at the end of scripts/demo: what broke, how soon it was repaired, and that nothing was lost."""

import argparse
import json
import textwrap
from pathlib import Path

COLUMNS = (("fault", 38), ("seen as", 12), ("detected", 9), ("committing", 10), ("redone", 6), ("action", 14),
           ("reason", 56))


def milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1000:.1f} s"


def rows_of(report: dict) -> list[tuple[str, ...]]:
    rows = []
    for incident in report["incidents"]:
        rows.append((incident["fault"] or "(none injected)", incident["kind"].replace("_", " "),
                     milliseconds(incident["detect_ms"]),
                     milliseconds(incident["recover_ms"]) if incident["recovered_at_s"] is not None else "never",
                     str(incident["micro_batches_redone"]), incident["action"].replace("_", " "), incident["reason"]))
    answered = [incident["fault"] for incident in report["incidents"]]
    for fault in report["faults"]:
        if fault["text"] in answered:
            answered.remove(fault["text"])
        else:
            rows.append((fault["text"], "-", "-", "-", "0", "-", "no incident was opened"))
    return rows


def print_table(rows: list[tuple[str, ...]]) -> None:
    for row in [tuple(name for name, _ in COLUMNS)] + rows:
        cells = [textwrap.wrap(cell, width) or [""] for cell, (_, width) in zip(row, COLUMNS)]
        for i in range(max(map(len, cells))):
            print("  ".join((cell[i] if i < len(cell) else "").ljust(width)
                            for cell, (_, width) in zip(cells, COLUMNS)).rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calm", type=Path, help="report folder of the run without faults")
    parser.add_argument("broken", type=Path, help="report folder of the run with faults")
    folders = parser.parse_args()
    calm = json.loads((folders.calm / "report.json").read_text())
    broken = json.loads((folders.broken / "report.json").read_text())

    print_table(rows_of(broken))
    print()
    for name, report in (("without faults", calm), ("with faults", broken)):
        throughput, goodput = report["throughput"], report["goodput"]
        print(f"{name:15} {report['steps']['committed']} steps, {report['samples']['consumed']} micro-batches, "
              f"{report['samples']['duplicated']} twice, {report['samples']['skipped']} skipped; "
              f"{throughput['mean']:.2f} {throughput['unit']} ({throughput['healthy_mean']:.2f} outside incidents), "
              f"goodput {goodput['fraction']:.0%}, digest {report['state_digest']}")
    if calm["throughput"]["mean"] > 0:
        part = broken["throughput"]["mean"] / calm["throughput"]["mean"]
        print(f"Throughput with faults is {part:.0%} of that without.")
    is_same = calm["state_digest"] == broken["state_digest"]
    print("The parameters are the same, bit for bit." if is_same else "THE PARAMETERS DIFFER.")
    print(f"Reports: {folders.calm / 'report.html'} and {folders.broken / 'report.html'}")
    return 0 if is_same else 1


if __name__ == "__main__":
    raise SystemExit(main())
