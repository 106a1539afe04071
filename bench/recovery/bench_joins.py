#!/usr/bin/env python3
"""What a join costs the others when something goes wrong in the middle of it.

In each case a rank is killed and heals while one of its donors is killed, a chunk is corrupted, or it is killed itself.
From the end of a repair until the rank is a member, everything by which the steps of the others are longer than the
median is added up: at most one step in all. What the repair of a second death costs is not counted as the join's.

  bench/recovery/bench_joins.py --pace build/release/bin/pace --count 50 --out joins.json
"""

import argparse
import random
import statistics
import sys
from pathlib import Path

import figures
import flags
import launch
import machine
import schedule
from bench_recovery import reference_digest
from workload import Workload

STEPS = 400
FIRST_STEP = schedule.WARM_UP_STEPS
APART = 60  # steps
KINDS = ("corrupt", "joiner", "donor")
JOIN_STEPS = 40  # of a rank, from its death until it surely is a member


def faults_of(kind: str, random_numbers: random.Random, step: int, ranks: int) -> list[str]:
    victim = random_numbers.randrange(ranks)
    kill = f"kill@step={step}:rank={victim}"
    if kind == "corrupt":
        return [kill, f"corrupt@step={step}:rank={victim}"]
    if kind == "joiner":
        return [kill, f"kill@step={step}:rank={victim},phase=heal,after_us={random_numbers.randrange(20_000)}"]
    # Its donors are not known from outside; any other rank is one of two with so many ranks, or will be asked next.
    other = (victim + random_numbers.randrange(1, ranks)) % ranks
    return [kill, f"kill@step={step + 2}:rank={other},after_us={random_numbers.randrange(50_000)}"]


def delays(run: launch.Run, first: int, last: int) -> float:
    """Medians by which steps of this part of the run were longer, outside of repairs."""
    pairs = [(earlier, later, later["at_s"] - earlier["at_s"]) for earlier, later in zip(run.turns, run.turns[1:])
             if later["turn"] == earlier["turn"] + 1 and not later["flagged"]]
    median = statistics.median(length for _, _, length in pairs)
    repairs = [(incident["injected_at_s"] or incident["detected_at_s"], incident["recovered_at_s"] or float("inf"))
               for incident in run.report["incidents"] if incident["kind"] != "corruption"]
    return sum(max(0.0, length / median - 1) for earlier, later, length in pairs
               if first <= later["step"] < last
               and not any(begin <= later["at_s"] and earlier["at_s"] <= end for begin, end in repairs))


def parsed_arguments() -> argparse.Namespace:
    parser = flags.parser(__doc__, "--pace", "--out", "--seed")
    parser.add_argument("--count", type=int, default=50, help="joins")
    return parser.parse_args()


def main() -> int:
    launch.end_in_order()
    arguments = parsed_arguments()
    workload = Workload(pace=arguments.pace.resolve(), spare_hosts=0)
    random_numbers = random.Random(arguments.seed)
    kinds = [KINDS[number % len(KINDS)] for number in range(arguments.count)]
    per_run = (STEPS - FIRST_STEP) // APART
    runs = [kinds[begin:begin + per_run] for begin in range(0, len(kinds), per_run)]
    print(f"seed {arguments.seed}, {len(kinds)} joins in {len(runs)} runs", flush=True)
    host = machine.described()
    digest = reference_digest(workload, STEPS)
    samples: dict[str, list[float]] = {kind: [] for kind in KINDS}
    problems: list[str] = []
    for number, run_kinds in enumerate(runs, 1):
        cases = [(kind, FIRST_STEP + index * APART) for index, kind in enumerate(run_kinds)]
        faults = [fault for kind, step in cases for fault in faults_of(kind, random_numbers, step, workload.ranks)]

        def command(folder: Path, faults=faults) -> list[str]:
            (folder / "faults").write_text("\n".join(faults) + "\n")
            return workload.command(folder / "report", STEPS, folder / "faults")
        run = launch.run(command, 240)
        found = [f"left behind: {what}" for what in run.left_behind]
        if not run.is_completed:
            found.append(f"not completed, code {run.code}:\n{run.output[-3000:]}")
        else:
            if run.report["state_digest"] != digest:
                found.append(f"digest {run.report['state_digest']}, not {digest}")
            struck = [fault["text"] for fault in run.report["faults"]]
            found += [f"has not struck: {fault}" for fault in faults if fault not in struck]
            corruptions = sum(incident["kind"] == "corruption" for incident in run.report["incidents"])
            if corruptions != run_kinds.count("corrupt"):
                found.append(f"{corruptions} corruptions were noticed, not {run_kinds.count('corrupt')}")
            for kind, step in cases:
                delay = delays(run, step, step + JOIN_STEPS)
                samples[kind].append(delay)
                if delay > 1:
                    found.append(f"the join after step {step} ({kind}) has cost the others {delay:.2f} steps")
        problems += [f"run {number}: {what}; faults: {' '.join(faults)}" for what in found]
        print(f"run {number} of {len(runs)}: code {run.code}, {run.wall_s:.0f} s, {len(problems)} problems so far",
              flush=True)
    figures.print_table(["join with", "count", "p50", "p99", "max"],
                        [[kind, *figures.summary(values).values()] for kind, values in samples.items()])
    print("in median steps of the others, all in all")
    for problem in problems:
        print(f"PROBLEM {problem}")
    if arguments.out:
        figures.write_json(arguments.out, {
            "machine": host, "seed": arguments.seed, "workload": workload.described(),
            "figures": {kind: figures.summary(values) for kind, values in samples.items()}, "samples": samples,
            "problems": problems})
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
