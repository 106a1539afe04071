#!/usr/bin/env python3
"""All-reduce inside a host: Paceline, Gloo, Open MPI and a probe by turns in one run.

Prints medians in microseconds with the ratio to Paceline on heap buffers; keeps every sample. A ratio
means something on a machine that does nothing else: `load_before` in the file tells.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recovery"))
import figures
import flags
import machine

SMALLEST_BYTES = 256


def command_of(arguments: argparse.Namespace, ranks: int) -> list[str]:
    cores = len(os.sched_getaffinity(0))
    placement = ["--bind-to", "core"] if ranks <= cores else ["--oversubscribe"]
    return ["mpirun", "-n", str(ranks), *placement, arguments.compare, str(SMALLEST_BYTES),
            str(arguments.largest), str(arguments.blocks)]


def measured(arguments: argparse.Namespace, ranks: int) -> list[dict]:
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    run = subprocess.run(command_of(arguments, ranks), env=environment, stdout=subprocess.PIPE,
                         text=True, timeout=arguments.limit_s, check=True)
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def print_medians(rows: list[dict]) -> None:
    sides = list(dict.fromkeys(side for row in rows for side in row["samples_us"]))
    table = []
    for row in rows:
        medians = {side: figures.percentile(samples, 0.5)
                   for side, samples in row["samples_us"].items()}
        cells = [f"{medians[side]:.1f} ({medians[side] / medians['paceline']:.2f})"
                 if side in medians else None for side in sides]
        table.append([f"{row['ranks']} ranks, {row['bytes']}", *cells])
    figures.print_table(["bytes", *sides], table)


def main() -> int:
    parser = flags.parser(__doc__, "--out")
    parser.add_argument("--compare", required=True, help="the program fabric_compare")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--largest", type=int, default=64 << 20, help="bytes")
    parser.add_argument("--blocks", type=int, default=15, help="samples per size and side")
    parser.add_argument("--limit-s", type=float, default=1200, help="of one number of ranks")
    parser.add_argument("--quick", action="store_true", help="looks whether the harness works")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.blocks, arguments.largest = 3, 1 << 20
    if not Path(arguments.compare).exists():
        print(f"bench_fabric: no {arguments.compare}; scripts/install-deps --bench, then make build",
              file=sys.stderr)
        return 64
    result = {"machine": machine.described(), "rows": []}
    for ranks in arguments.ranks:
        rows = measured(arguments, ranks)
        print_medians(rows)
        result["rows"] += rows
        if arguments.out:
            figures.write_json(arguments.out, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
