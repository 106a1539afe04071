#!/usr/bin/env python3
"""How soon a slow rank is found and relieved, how near the step then comes to the best division, and how soon it has its
work back.

Each run trains with one rank that is slow for a while and then recovers. With fine micro-batches (V = 320) work must be
moved; with coarse ones (V = 16) moving one would make another rank as late, and the decision must be to wait.

  bench/recovery/bench_straggler.py --pace build/release/bin/pace --out straggler.json
"""

import argparse
import dataclasses
import random
import re
import statistics
import sys
from pathlib import Path

import figures
import flags
import judge
import launch
import machine
from workload import Workload

FOUND_WITHIN_STEPS = 20
BACK_WITHIN_STEPS = 20
LEAST_PART_OF_THE_WAY = 0.8
STEPS_BEFORE = 80
STEPS_AFTER = 80  # the rank is back at pace
SLOW_STEPS = 120  # at the healthy pace
WINDOW = 40  # steps that a median is taken of


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    micro_batches: int
    micro_batch_ms: float
    factor: float
    action: str  # that must be chosen

    def workload(self, arguments: argparse.Namespace) -> Workload:
        return Workload(pace=arguments.pace.resolve(), spare_hosts=0, micro_batches=self.micro_batches,
                        micro_batch_ms=self.micro_batch_ms * arguments.scale, gradient_mb=0.02, state_mb=1)


CASES = (Case("V=320, 10 %", 320, 1.25, 1.1, "rebalance"), Case("V=320, 3x", 320, 1.25, 3, "rebalance"),
         Case("V=16, 10 %", 16, 25, 1.1, "wait"))


def best_makespan(micro_batches: int, ranks: int, factor: float) -> float:
    """Of whole micro-batches over ranks of which one is slow, in micro-batches of a healthy rank."""
    return min(max(slow * factor, -(-(micro_batches - slow) // (ranks - 1))) for slow in range(micro_batches + 1))


def median_step_ms(turns: list[dict]) -> float | None:
    return statistics.median(turn["step_ms"] for turn in turns) if turns else None


@dataclasses.dataclass
class Outcome:
    """One run. Steps are counted in commits; None: it did not happen."""

    case: str
    rank: int
    found_after_steps: int | None = None
    action: str | None = None
    reason: str = ""
    healthy_ms: float | None = None
    slow_ms: float | None = None  # before it is relieved
    relieved_ms: float | None = None
    best_ms: float | None = None  # with the best division into whole micro-batches
    part_of_the_way: float | None = None  # from slow to best
    back_after_steps: int | None = None
    changes_of_epoch: int = 0
    others: list[str] = dataclasses.field(default_factory=list)  # incidents that are not the slow rank's


def outcome_of(case: Case, workload: Workload, run: launch.Run, rank: int) -> Outcome:
    outcome = Outcome(case.name, rank)
    turns = run.turns
    began_s = run.report["faults"][0]["at_s"]
    ended_s = began_s + slow_s(case, workload)
    stragglers = [incident for incident in run.report["incidents"] if incident["kind"] == "straggler"]
    mine = [incident for incident in stragglers if incident["rank"] == rank]
    outcome.others = [judge.named(incident) for incident in run.report["incidents"] if incident not in mine]
    if mine:
        outcome.found_after_steps = sum(began_s < turn["at_s"] <= mine[0]["detected_at_s"] for turn in turns)
        outcome.action, outcome.reason = mine[0]["action"], mine[0]["reason"]
    changes = [later for earlier, later in zip(turns, turns[1:]) if later["epoch"] != earlier["epoch"] and later["turn"] > 5]
    outcome.changes_of_epoch = len(changes)
    before = [turn for turn in turns if turn["at_s"] <= began_s][-WINDOW:]
    outcome.healthy_ms = median_step_ms(before)
    slow = [turn for turn in turns if began_s < turn["at_s"] <= ended_s]
    relieved_at = next((turn["turn"] for turn in changes if turn["at_s"] > began_s), float("inf"))
    outcome.slow_ms = median_step_ms([turn for turn in slow[1:] if turn["turn"] < relieved_at])
    outcome.relieved_ms = median_step_ms([turn for turn in slow if turn["turn"] > relieved_at + 1])
    # What a micro-batch really takes: the program's own cost is in it.
    micro_batch_ms = statistics.median(turn["compute_s"] / turn["micro_batches"] for turn in before) * 1e3
    even = case.micro_batches / workload.ranks
    best = best_makespan(case.micro_batches, workload.ranks, case.factor)
    outcome.best_ms = outcome.healthy_ms + (best - even) * micro_batch_ms
    if outcome.relieved_ms is not None and outcome.slow_ms is not None:
        outcome.part_of_the_way = (outcome.slow_ms - outcome.relieved_ms) / (outcome.slow_ms - outcome.best_ms)
    back_at = next((turn["at_s"] for turn in changes if turn["at_s"] > ended_s), None)
    if back_at is not None:
        outcome.back_after_steps = sum(ended_s < turn["at_s"] <= back_at for turn in turns)
    return outcome


def slow_s(case: Case, workload: Workload) -> float:
    return round(SLOW_STEPS * workload.step_s * (1.1 if case.factor < 2 else 1.5), 1)


def problems_of(case: Case, outcome: Outcome) -> list[str]:
    name = f"{case.name}, rank {outcome.rank}"
    problems = [f"{name}: beside it: {other}" for other in outcome.others]
    if outcome.found_after_steps is None or outcome.found_after_steps > FOUND_WITHIN_STEPS:
        problems.append(f"{name}: found after {outcome.found_after_steps} steps")
    if outcome.action != case.action:
        problems.append(f"{name}: the action is {outcome.action}, not {case.action}: {outcome.reason}")
    if case.action == "wait":
        if outcome.changes_of_epoch:
            problems.append(f"{name}: {outcome.changes_of_epoch} changes of epoch")
        if len(re.findall(r"\d+ (?:ms|us)", outcome.reason)) < 2:
            problems.append(f"{name}: the reason lacks the two numbers: {outcome.reason}")
        return problems
    if outcome.part_of_the_way is None or outcome.part_of_the_way < LEAST_PART_OF_THE_WAY:
        problems.append(f"{name}: only {outcome.part_of_the_way} of the way to the best division")
    if outcome.back_after_steps is None or outcome.back_after_steps > BACK_WITHIN_STEPS:
        problems.append(f"{name}: work given back after {outcome.back_after_steps} steps")
    return problems


def run_case(case: Case, arguments: argparse.Namespace, numbers: random.Random) -> tuple[Outcome | None, list[str]]:
    workload = case.workload(arguments)
    rank, step = numbers.randrange(workload.ranks), STEPS_BEFORE + numbers.randrange(20)
    steps = STEPS_BEFORE + 20 + SLOW_STEPS + STEPS_AFTER

    def command(folder: Path) -> list[str]:
        (folder / "faults").write_text(f"slow@step={step}:rank={rank},factor={case.factor},for={slow_s(case, workload)}s\n")
        return workload.command(folder / "report", steps, folder / "faults")
    run = launch.run(command, 60 + steps * workload.step_s * 5)
    problems = [f"{case.name}: left behind: {what}" for what in run.left_behind]
    if not run.is_completed or not run.report.get("faults"):
        return None, problems + [f"{case.name}: not completed, or not struck; code {run.code}:\n{run.output[-3000:]}"]
    outcome = outcome_of(case, workload, run, rank)
    if outcome.reason and outcome.reason not in run.output:
        problems.append(f"{case.name}: the log does not say: {outcome.reason}")
    return outcome, problems + problems_of(case, outcome)


def print_outcomes(outcomes: list[Outcome]) -> None:
    figures.print_table(
        ["case", "rank", "found after", "action", "healthy ms", "slow ms", "relieved ms", "best ms", "way %", "back after"],
        [[one.case, one.rank, one.found_after_steps, one.action, one.healthy_ms, one.slow_ms, one.relieved_ms, one.best_ms,
          None if one.part_of_the_way is None else one.part_of_the_way * 100, one.back_after_steps] for one in outcomes])
    print("medians of steps; found and given back: steps from the beginning and from the end of the slowness")
    for one in outcomes:
        if one.action == "wait":
            print(f"wait, rank {one.rank}: {one.reason}")


def main() -> int:
    parser = flags.parser(__doc__, "--pace", "--out", "--seed")
    parser.add_argument("--scale", type=float, default=1, help="micro-batches so many times as long: for a busy machine")
    parser.add_argument("--runs", type=int, default=5, help="of each case")
    launch.end_in_order()
    arguments = parser.parse_args()
    host = machine.described()
    numbers = random.Random(arguments.seed)
    outcomes, problems = [], []
    for number in range(arguments.runs):
        for case in CASES:
            outcome, found = run_case(case, arguments, numbers)
            problems += found
            outcomes += [outcome] if outcome else []
            print(f"run {number + 1} of {arguments.runs}, {case.name}: {len(found)} problems", flush=True)
    print_outcomes(outcomes)
    if arguments.out:
        figures.write_json(arguments.out, {"machine": host, "seed": arguments.seed, "scale": arguments.scale, "problems": problems,
                                           "runs": [dataclasses.asdict(one) for one in outcomes]})
    for problem in problems:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
