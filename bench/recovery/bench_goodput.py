#!/usr/bin/env python3
"""How much of its fault-free throughput workload W keeps with a fault every 29 s.

One run: a fault-free window, ten minutes in which a fault strikes every 29 s (half kills, a quarter stops, a quarter silent
losses of a host that comes back after 10 s), and a fault-free window again. Throughput is committed samples per second of
wall time: every committed step is V of them, once each, whoever computed them and however often. The fault-free throughput
is that of both windows together; what lies between them is everything that faults cost, repairs and healing included.

  bench/recovery/bench_goodput.py --pace build/release/bin/pace --out goodput.json
  bench/recovery/bench_goodput.py --pace build/release/bin/pace --minutes 2 --window-s 20
"""

import argparse
import dataclasses
import random
import sys
from pathlib import Path

import figures
import flags
import judge
import launch
import machine
import schedule
from workload import Workload

BETWEEN_FAULTS_S = 29
KINDS = ("kill", "stop", "kill", "lose-host")  # in this proportion
LEAST_SHARE = 0.97
CALIBRATION_STEPS = 200
WARM_UP_STEPS = 40
PACE_WITH_FAULTS = 0.98  # of the calibrated one: faults are placed by steps, and must not come too seldom


def parsed_arguments() -> argparse.Namespace:
    parser = flags.parser(__doc__, "--pace", "--out", "--seed")
    parser.add_argument("--minutes", type=float, default=10, help="with faults")
    parser.add_argument("--window-s", type=float, default=60, help="without faults, before and after")
    return parser.parse_args()


@dataclasses.dataclass(frozen=True)
class Window:
    """Between two commits. `samples`: committed in it."""

    seconds: float
    samples: float

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.seconds if self.seconds > 0 else 0.0


def window_between(turns: list[dict], begin_s: float, end_s: float, micro_batches: int) -> Window:
    """Counted by step numbers: a commit that nobody reported is one all the same."""
    inside = [turn for turn in turns if begin_s <= turn["at_s"] <= end_s]
    if len(inside) < 2:
        return Window(0, 0)
    return Window(inside[-1]["at_s"] - inside[0]["at_s"], (inside[-1]["step"] - inside[0]["step"]) * micro_batches)


def steps_per_s(workload: Workload) -> float:
    """Without faults, on this machine as it is now."""
    run = launch.run(lambda folder: workload.command(folder / "report", CALIBRATION_STEPS), 120)
    if not run.is_completed:
        raise SystemExit(f"the run without faults has failed with code {run.code}:\n{run.output[-3000:]}")
    window = window_between(run.turns[WARM_UP_STEPS:], 0, float("inf"), 1)
    return window.samples_per_s


def plan_of(arguments: argparse.Namespace, workload: Workload, pace: float) -> schedule.Schedule:
    """Kinds in their proportion and random order, each at a random moment of its step."""
    numbers = random.Random(arguments.seed)
    count = max(1, round(arguments.minutes * 60 / BETWEEN_FAULTS_S))
    kinds = [KINDS[number % len(KINDS)] for number in range(count)]
    numbers.shuffle(kinds)
    first = WARM_UP_STEPS + round(arguments.window_s * pace)
    between = BETWEEN_FAULTS_S * pace * PACE_WITH_FAULTS
    ranks = range(workload.ranks)
    faults = tuple(schedule.random_fault(numbers, kind, first + round(number * between), ranks, workload.step_s)
                   for number, kind in enumerate(kinds))
    steps = first + round(count * between + arguments.window_s * pace)
    return schedule.Schedule(arguments.seed, steps, faults)


@dataclasses.dataclass(frozen=True)
class Loss:
    """What one fault cost until the next one: wall time beyond that of the same steps without faults."""

    fault: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class Goodput:
    before: Window
    faulty: Window
    after: Window
    between_faults_s: float
    losses: list[Loss]

    @property
    def fault_free_per_s(self) -> float:
        seconds = self.before.seconds + self.after.seconds
        return (self.before.samples + self.after.samples) / seconds if seconds > 0 else 0.0

    @property
    def share(self) -> float:
        return self.faulty.samples_per_s / self.fault_free_per_s if self.fault_free_per_s > 0 else 0.0

    def described(self) -> dict:
        windows = {name: dataclasses.asdict(window) | {"samples_per_s": window.samples_per_s}
                   for name, window in (("before", self.before), ("faulty", self.faulty), ("after", self.after))}
        return windows | {"fault_free_samples_per_s": self.fault_free_per_s, "share": self.share,
                          "between_faults_s": self.between_faults_s,
                          "losses": [dataclasses.asdict(loss) for loss in self.losses]}


def goodput_of(run: launch.Run, workload: Workload) -> Goodput:
    """Each fault has the time to the next one; the last has as much as the others in the mean."""
    faults = sorted(run.report["faults"], key=lambda fault: fault["at_s"])
    times = [fault["at_s"] for fault in faults]
    between_s = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else BETWEEN_FAULTS_S
    times.append(times[-1] + between_s)
    v = workload.micro_batches
    warm = run.turns[WARM_UP_STEPS:]
    before = window_between(warm, 0, times[0], v)
    after = window_between(warm, times[-1], float("inf"), v)
    goodput = Goodput(before, window_between(warm, times[0], times[-1], v), after, between_s, [])
    for fault, begin_s, end_s in zip(faults, times, times[1:]):
        part = window_between(warm, begin_s, end_s, v)
        goodput.losses.append(Loss(fault["text"], part.seconds - part.samples / max(goodput.fault_free_per_s, 1e-9)))
    return goodput


def problems_of(run: launch.Run, plan: schedule.Schedule, goodput: Goodput | None) -> list[str]:
    problems = [f"left behind: {what}" for what in run.left_behind]
    if not run.is_completed:
        problems.append(f"not completed, code {run.code}:\n{run.output[-3000:]}")
    if goodput is None:
        return problems + ["no fault has struck"]
    verdict = judge.judge(run.report, run.turns, tuple(fault.text for fault in plan.faults))
    for name in ("missing", "wrong", "extra", "not_struck"):
        problems += [f"{name.replace('_', ' ')}: {what}" for what in getattr(verdict, name)]
    if goodput.between_faults_s > BETWEEN_FAULTS_S:
        problems.append(f"a fault every {goodput.between_faults_s:.1f} s only: the machine was slower than right before")
    if goodput.share < LEAST_SHARE:
        problems.append(f"{goodput.share:.2%} of the fault-free throughput, at least {LEAST_SHARE:.0%} are promised")
    return problems


def print_goodput(goodput: Goodput) -> None:
    kinds = sorted({loss.fault.split("@")[0] for loss in goodput.losses})
    rows = []
    for kind in kinds:
        lost = [loss.seconds for loss in goodput.losses if loss.fault.split("@")[0] == kind]
        rows.append([kind, len(lost), sum(lost) / len(lost) * 1e3, max(lost) * 1e3])
    figures.print_table(["fault", "count", "lost ms, mean", "most"], rows)
    print(f"samples per second: {goodput.before.samples_per_s:.1f} before, {goodput.faulty.samples_per_s:.1f} with a fault "
          f"every {goodput.between_faults_s:.1f} s, {goodput.after.samples_per_s:.1f} after: {goodput.share:.2%}")


def main() -> int:
    launch.end_in_order()
    arguments = parsed_arguments()
    workload = Workload(pace=arguments.pace.resolve())
    host = machine.described()
    pace = steps_per_s(workload)
    plan = plan_of(arguments, workload, pace)
    print(f"seed {arguments.seed}, {pace:.2f} steps/s without faults; {plan.steps} steps, {len(plan.faults)} faults", flush=True)

    def command(folder: Path) -> list[str]:
        (folder / "faults").write_text(plan.text)
        return workload.command(folder / "report", plan.steps, folder / "faults")

    run = launch.run(command, 120 + 3 * plan.steps / pace)
    goodput = goodput_of(run, workload) if run.report.get("faults") else None
    problems = problems_of(run, plan, goodput)
    if goodput is not None:
        print_goodput(goodput)
    if arguments.out:
        figures.write_json(arguments.out, {
            "machine": host, "load": "idle", "seed": arguments.seed, "workload": workload.described(), "problems": problems,
            "calibrated_steps_per_s": pace, "faults": [fault.text for fault in plan.faults], "code": run.code,
            "wall_s": round(run.wall_s, 1), "goodput": goodput.described() if goodput is not None else None})
    for problem in problems:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
