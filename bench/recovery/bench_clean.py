#!/usr/bin/env python3
"""No false alarm: a long run in which nothing is broken, and much is unusual.

One step in a hundred computes 20 times as long (in one half of the steps on all ranks, in the other on one rank alone),
spinning loops take the processors for a third of the time, and the controller and one agent are each stopped for 3 s
twice. Nothing may be restarted, swapped, shrunk or isolated; work may be divided anew at most once in 500 steps.

  bench/recovery/bench_clean.py --pace build/release/bin/pace --steps 20000 --out clean.json
"""

import argparse
import collections
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import figures
import launch
import machine
from workload import Workload

HARMFUL = ("restart_in_place", "swap_spare", "shrink", "roll_back", "isolate_host", "stop")
STEPS_PER_REBALANCE = 500
PAUSE_S = 3
PAUSES = (("controller", 0.2), ("agent", 0.3), ("controller", 0.6), ("agent", 0.75))  # at this part of the run


def daemon_of(mark: str, verb: str) -> int | None:
    """A controller or agent of the run with this mark, by its command line."""
    for number, line in launch.processes_with(mark).items():
        if line.split()[1:2] == [verb]:
            return number
    return None


class Disturbance:
    """Called while the run goes on. Knows how far it should be by the clock."""

    def __init__(self, expected_s: float, busy: int):
        self.expected_s = expected_s
        self.busy = busy
        self.began = time.monotonic()
        self.pauses = list(PAUSES)
        self.paused: tuple[int, float] | None = None  # process, until when
        self.loops: contextlib.ExitStack | None = None
        self.done: list[str] = []

    def __call__(self, _process, mark: str) -> None:
        part = (time.monotonic() - self.began) / self.expected_s
        self.pause(part, mark)
        # The second third.
        if self.loops is None and 1 / 3 <= part < 2 / 3:
            self.loops = contextlib.ExitStack()
            self.loops.enter_context(machine.busy_loops(self.busy))
            self.done.append(f"{self.busy} busy loops from {part:.0%}")
        elif part >= 2 / 3:
            self.end_loops()

    def pause(self, part: float, mark: str) -> None:
        if self.paused is not None:
            if time.monotonic() >= self.paused[1]:
                self.resume()
        elif self.pauses and part >= self.pauses[0][1]:
            verb, _ = self.pauses.pop(0)
            process = daemon_of(mark, verb)
            if process is None:
                self.done.append(f"no {verb} found to stop")
                return
            os.kill(process, signal.SIGSTOP)
            self.paused = (process, time.monotonic() + PAUSE_S)
            self.done.append(f"{verb} stopped at {part:.0%}")

    def resume(self) -> None:
        if self.paused is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.paused[0], signal.SIGCONT)
            self.paused = None

    def end_loops(self) -> None:
        if self.loops is not None:
            self.loops.close()

    def close(self) -> None:
        self.resume()
        self.end_loops()


def part_of_run(workload: Workload, steps: int, slow_on: str, arguments: argparse.Namespace) -> dict:
    # A slow step lasts 20 times as long: 1.2 times the time in all.
    disturbance = Disturbance(steps * workload.step_s * (1 + 19 / arguments.slow_step_every), arguments.busy)
    extra = ("--slow-step-every", str(arguments.slow_step_every), "--slow-step-on", slow_on)
    try:
        run = launch.run(lambda folder: workload.command(folder / "report", steps, extra=extra),
                         120 + 8 * disturbance.expected_s, disturbance)
    finally:
        disturbance.close()
    incidents = run.report.get("incidents", [])
    epochs = sorted({int(turn["epoch"]) for turn in run.turns})
    return {"slow_on": slow_on, "steps": steps, "code": run.code, "wall_s": round(run.wall_s, 1),
            "is_completed": run.is_completed, "samples": run.report.get("samples"),
            "throughput": run.report.get("throughput"), "disturbed_by": disturbance.done,
            "actions": dict(collections.Counter(incident["action"] for incident in incidents)),
            # The first epoch is the start; every further one without an incident that harms is a new division.
            "changes_of_epoch": len(epochs) - 1 if epochs else 0,
            "incidents": [f"{incident['kind']} rank {incident['rank']} at step {incident['step']} ({incident['detected_at_s']:.1f} s): "
                          f"{incident['action']}: {incident['reason']}"
                          for incident in incidents],
            "left_behind": run.left_behind, "output": "" if run.is_completed else run.output[-4000:]}


def problems_of(part: dict) -> list[str]:
    name = f"slow on {part['slow_on']}"
    problems = [f"{name}: left behind: {what}" for what in part["left_behind"]]
    if not part["is_completed"]:
        problems.append(f"{name}: not completed, code {part['code']}:\n{part['output']}")
    problems += [f"{name}: false alarm: {count} x {action}" for action, count in part["actions"].items()
                 if action in HARMFUL]
    allowed = max(1, part["steps"] // STEPS_PER_REBALANCE)
    if part["changes_of_epoch"] > allowed:
        problems.append(f"{name}: {part['changes_of_epoch']} changes of epoch, at most {allowed} are allowed")
    return problems + [f"{name}: {what}" for what in part["disturbed_by"] if what.startswith("no ")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pace", type=Path, required=True, help="the program; the trainer is beside it")
    parser.add_argument("--out", type=Path, help="JSON file")
    parser.add_argument("--steps", type=int, default=20_000, help="of both halves together")
    parser.add_argument("--slow-step-every", type=int, default=100)
    parser.add_argument("--busy", type=int, default=8)
    launch.end_in_order()
    arguments = parser.parse_args()
    workload = Workload(pace=arguments.pace.resolve())
    host = machine.described()
    parts, problems = [], []
    for slow_on in ("all", "one"):
        parts.append(part_of_run(workload, arguments.steps // 2, slow_on, arguments))
        problems += problems_of(parts[-1])
        print(f"slow on {slow_on}: {parts[-1]['steps']} steps in {parts[-1]['wall_s']} s; actions "
              f"{parts[-1]['actions'] or 'none'}; {parts[-1]['changes_of_epoch']} changes of epoch; "
              f"{', '.join(parts[-1]['disturbed_by'])}", flush=True)
        for incident in parts[-1]["incidents"]:
            print(f"  {incident}")
    if arguments.out:
        figures.write_json(arguments.out, {"machine": host, "workload": workload.described(), "parts": parts,
                                           "problems": problems})
    for problem in problems:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
