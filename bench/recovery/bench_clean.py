#!/usr/bin/env python3
"""No false alarm: a long run in which nothing is broken, and much is unusual.

The first step takes 5 s longer than the others. One step in a hundred computes 20 times as long, in turn on all ranks and
on one rank alone. Spinning loops take the processors for a third of the time, and the controller and one agent are each
stopped for 3 s twice. Nothing may be restarted, swapped, shrunk or isolated; work may be divided anew at most once in 500
steps, and never so that steps become longer.

  bench/recovery/bench_clean.py --pace build/release/bin/pace --steps 20000 --out clean.json
"""

import argparse
import collections
import contextlib
import os
import signal
import statistics
import sys
import time

import figures
import flags
import launch
import machine
from workload import Workload

HARMFUL = ("restart_in_place", "swap_spare", "shrink", "roll_back", "isolate_host", "stop")
STEPS_PER_REBALANCE = 500
STEPS_COMPARED = 100  # before and after a new division
MEASUREMENT_ERROR = 0.03  # of a median of so many steps
WARM_UP_MS = 5000
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


def lengths_around(turns: list[dict], change: int) -> tuple[float, float]:
    """Median step before and after the turn in which an epoch came into force, in ms."""
    def median(part: list[dict]) -> float:
        return statistics.median(turn["step_ms"] for turn in part) if part else 0.0
    return median(turns[max(1, change - STEPS_COMPARED):change]), median(turns[change + 1:change + 1 + STEPS_COMPARED])


def changes_of_epoch(turns: list[dict]) -> list[dict]:
    """The first epoch is the start; every further one without an incident that harms is a new division."""
    changes = []
    for number in range(1, len(turns)):
        if turns[number]["epoch"] != turns[number - 1]["epoch"]:
            before_ms, after_ms = lengths_around(turns, number)
            changes.append({"step": int(turns[number]["step"]), "at_s": turns[number]["at_s"], "step_ms_before": before_ms,
                            "step_ms_after": after_ms})
    return changes


def clean_run(workload: Workload, arguments: argparse.Namespace) -> dict:
    # A slow step lasts 20 times as long: 1.2 times the time in all.
    expected_s = WARM_UP_MS / 1e3 + arguments.steps * workload.step_s * (1 + 19 / arguments.slow_step_every)
    disturbance = Disturbance(expected_s, arguments.busy)
    extra = ("--slow-step-every", str(arguments.slow_step_every), "--slow-step-on", "mixed",
             "--warm-up-ms", str(WARM_UP_MS))
    try:
        run = launch.run(lambda folder: workload.command(folder / "report", arguments.steps, extra=extra),
                         120 + 8 * expected_s, disturbance)
    finally:
        disturbance.close()
    incidents = run.report.get("incidents", [])
    return {"steps": arguments.steps, "code": run.code, "wall_s": round(run.wall_s, 1),
            "is_completed": run.is_completed, "samples": run.report.get("samples"),
            "throughput": run.report.get("throughput"), "disturbed_by": disturbance.done,
            "step_ms": figures.summary([turn["step_ms"] for turn in run.turns[1:]]),
            "actions": dict(collections.Counter(incident["action"] for incident in incidents)),
            "changes_of_epoch": changes_of_epoch(run.turns),
            "incidents": [f"{incident['kind']} rank {incident['rank']} at step {incident['step']} ({incident['detected_at_s']:.1f} s): "
                          f"{incident['evidence']}: {incident['action']}: {incident['reason']}"
                          for incident in incidents],
            "left_behind": run.left_behind, "output": "" if run.is_completed else run.output[-4000:]}


def problems_of(result: dict) -> list[str]:
    problems = [f"left behind: {what}" for what in result["left_behind"]]
    if not result["is_completed"]:
        problems.append(f"not completed, code {result['code']}:\n{result['output']}")
    problems += [f"false alarm: {count} x {action}" for action, count in result["actions"].items() if action in HARMFUL]
    changes = result["changes_of_epoch"]
    allowed = result["steps"] // STEPS_PER_REBALANCE
    if len(changes) > allowed:
        problems.append(f"{len(changes)} changes of epoch, at most {allowed} are allowed")
    problems += [f"steps take {change['step_ms_after']:.1f} ms instead of {change['step_ms_before']:.1f} ms from step "
                 f"{change['step']} on" for change in changes
                 if change["step_ms_after"] > change["step_ms_before"] * (1 + MEASUREMENT_ERROR)]
    return problems + [what for what in result["disturbed_by"] if what.startswith("no ")]


def main() -> int:
    parser = flags.parser(__doc__, "--pace", "--out")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--slow-step-every", type=int, default=100)
    parser.add_argument("--busy", type=int, default=8)
    launch.end_in_order()
    arguments = parser.parse_args()
    workload = Workload(pace=arguments.pace.resolve())
    host = machine.described()
    result = clean_run(workload, arguments)
    problems = problems_of(result)
    print(f"{result['steps']} steps in {result['wall_s']} s, p50 {figures.text_of(result['step_ms']['p50'])} ms; actions "
          f"{result['actions'] or 'none'}; {len(result['changes_of_epoch'])} changes of epoch; "
          f"{', '.join(result['disturbed_by'])}", flush=True)
    for incident in result["incidents"]:
        print(f"  {incident}")
    if arguments.out:
        figures.write_json(arguments.out, {"machine": host, "workload": workload.described(), "run": result,
                                           "problems": problems})
    for problem in problems:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
