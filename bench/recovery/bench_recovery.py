#!/usr/bin/env python3
"""How soon workload W commits again after each kind of fault.

Each run trains on workload W while many faults strike, one at a time, at random microseconds and in named phases. Its
final state is compared with that of a run without faults. Prints order statistics; writes them with every sample.

  bench/recovery/bench_recovery.py --pace build/release/bin/pace --out idle.json
  bench/recovery/bench_recovery.py --pace build/release/bin/pace --out busy.json --busy 8
"""

import argparse
import dataclasses
import sys
from pathlib import Path

import figures
import flags
import judge
import launch
import machine
import schedule
from workload import Workload

STEPS_PER_RUN = 1200
QUICK_STEPS = 420
QUICK_COUNTS = {"kill": 2, "stop": 1, "kill-agent": 1, "kill-controller": 1}
OTHER_KINDS = ("stop", "hang", "spin", "skip", "slow", "lose-host", "kill-agent", "kill-controller")


def parsed_arguments() -> argparse.Namespace:
    parser = flags.parser(__doc__, "--pace", "--out", "--seed")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--others", type=int, default=100, help="faults of each other kind")
    parser.add_argument("--kinds", nargs="*", choices=OTHER_KINDS, default=OTHER_KINDS, help="the other kinds")
    parser.add_argument("--busy", type=int, default=0, help="loops that spin meanwhile")
    parser.add_argument("--state-mb", type=float, default=64)
    parser.add_argument("--quick", action="store_true", help="one short run: does it work at all?")
    return parser.parse_args()


def schedules_of(arguments: argparse.Namespace, workload: Workload) -> list[schedule.Schedule]:
    if arguments.quick:
        return schedule.spaced(arguments.seed, QUICK_COUNTS, workload.ranks, workload.ranks_per_host, workload.step_s,
                               QUICK_STEPS)
    counts = {"kill": arguments.kills} | {kind: arguments.others for kind in arguments.kinds}
    return schedule.spaced(arguments.seed, counts, workload.ranks, workload.ranks_per_host, workload.step_s,
                           STEPS_PER_RUN)


def reference_digest(workload: Workload, steps: int) -> str:
    run = launch.run(lambda folder: workload.undisturbed().command(folder / "report", steps), 60 + steps)
    if not run.is_completed:
        raise SystemExit(f"the run without faults has failed with code {run.code}:\n{run.output[-3000:]}")
    return run.report["state_digest"]


@dataclasses.dataclass
class Result:
    samples: list[judge.Sample] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(
        ("runs", "completed", "equal_digests", "missing", "wrong", "extra", "not_struck", "unreported_turns"), 0))
    runs: list[dict] = dataclasses.field(default_factory=list)

    def add(self, run: launch.Run, plan: schedule.Schedule, digest: str) -> None:
        self.counts["runs"] += 1
        number = self.counts["runs"]
        self.runs.append({"faults": [fault.text for fault in plan.faults], "code": run.code,
                          "wall_s": round(run.wall_s, 2), "throughput": run.report.get("throughput")})
        if not run.is_completed:
            self.problems.append(f"run {number}: not completed, code {run.code}; faults:\n{plan.text}"
                                 f"{run.output[-3000:]}")
        else:
            self.counts["completed"] += 1
            is_equal = run.report["state_digest"] == digest
            self.counts["equal_digests"] += is_equal
            if not is_equal:
                self.problems.append(f"run {number}: digest {run.report['state_digest']}, not {digest}; "
                                     f"faults:\n{plan.text}")
        self.problems += [f"run {number}: left behind: {what}" for what in run.left_behind]
        if not run.report:
            return
        verdict = judge.judge(run.report, run.turns, tuple(fault.text for fault in plan.faults))
        self.samples += verdict.samples
        self.counts["unreported_turns"] += sum(sample.unreported_turns for sample in verdict.samples)
        for name in ("missing", "wrong", "extra", "not_struck"):
            found = getattr(verdict, name)
            self.counts[name] += len(found)
            self.problems += [f"run {number}: {name.replace('_', ' ')}: {what}" for what in found]

    def of(self, kind: str, name: str) -> list[float]:
        values = [getattr(sample, name) for sample in self.samples if sample.kind == kind]
        return [value for value in values if value is not None]

    def kinds(self) -> list[str]:
        return sorted({sample.kind for sample in self.samples})


MEASURES = ("detect_ms", "abort_ms", "recover_ms", "longest_step_ms", "micro_batches_redone")


def write(out: Path | None, arguments: argparse.Namespace, workload: Workload, result: Result, host: dict) -> None:
    if out is None:
        return
    summary = {kind: {name: figures.summary(result.of(kind, name)) for name in MEASURES} for kind in result.kinds()}
    figures.write_json(out, {
        "machine": host, "load": f"{arguments.busy} busy loops" if arguments.busy else "idle", "seed": arguments.seed,
        "workload": workload.described(), "counts": result.counts, "figures": summary, "problems": result.problems,
        "runs": result.runs, "samples": [dataclasses.asdict(sample) for sample in result.samples]})


def print_result(result: Result) -> None:
    header = ["fault", "count"] + [f"{name} {part}" for name in ("detect", "abort", "recover", "longest step", "redone")
                                   for part in ("p50", "p99")]
    rows = []
    for kind in result.kinds():
        row: list[object] = [kind, sum(sample.kind == kind for sample in result.samples)]
        for name in MEASURES:
            samples = result.of(kind, name)
            row += [figures.percentile(samples, 0.5), figures.percentile(samples, 0.99)]
        rows.append(row)
    figures.print_table(header, rows)
    print("times in milliseconds from the fault; redone in micro-batches")
    print(", ".join(f"{name.replace('_', ' ')} {count}" for name, count in result.counts.items()))
    for problem in result.problems:
        print(f"PROBLEM {problem}")


def main() -> int:
    launch.end_in_order()
    arguments = parsed_arguments()
    workload = Workload(pace=arguments.pace.resolve(), state_mb=arguments.state_mb)
    schedules = schedules_of(arguments, workload)
    print(f"seed {arguments.seed}, {len(schedules)} runs of {schedules[0].steps} steps, "
          f"{arguments.busy} busy loops beside them", flush=True)
    host = machine.described()
    digest = reference_digest(workload, schedules[0].steps)
    result = Result()
    with machine.busy_loops(arguments.busy):
        for plan in schedules:
            def command(folder: Path, plan=plan) -> list[str]:
                (folder / "faults").write_text(plan.text)
                return workload.command(folder / "report", plan.steps, folder / "faults")
            run = launch.run(command, 120 + plan.steps * workload.step_s * 10)
            result.add(run, plan, digest)
            print(f"run {result.counts['runs']} of {len(schedules)}: code {run.code}, {run.wall_s:.0f} s, "
                  f"{len(plan.faults)} faults, {len(result.problems)} problems so far", flush=True)
            write(arguments.out, arguments, workload, result, host)
    print_result(result)
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
