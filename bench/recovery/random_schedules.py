#!/usr/bin/env python3
"""Random schedules of faults: every run must complete with the same bits, every sample once, and leave nothing behind.

Schedule n of seed S is the same for ever, whatever else is run; a failure prints the command that repeats it alone.

  bench/recovery/random_schedules.py --pace build/release/bin/pace --count 200
  bench/recovery/random_schedules.py --pace build/release/bin/pace --seed 7 --only 12
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import random
import shutil
import sys
from pathlib import Path

import flags
import launch
import schedule
from workload import Workload

KINDS = tuple(schedule.KINDS)  # poison is none of them: it ends a job by design
MICRO_BATCHES = (32, 30, 37)  # the last two are divided unevenly
CHECKPOINT_EVERY = 5
STEPS = 240
LIMIT_S = 180
ALL_PHASES = (*schedule.PHASES, *schedule.REPAIR_PHASES)


@dataclasses.dataclass(frozen=True)
class Case:
    number: int
    workload: Workload
    plan: schedule.Schedule
    has_checkpoints: bool

    @property
    def shape(self) -> str:
        workload = self.workload
        disk = ", disk" if self.has_checkpoints else ""
        return f"{workload.hosts}x{workload.ranks_per_host}+{workload.spare_hosts}, V {workload.micro_batches}{disk}"


def case_of(seed: int, number: int, pace: Path, kinds: tuple[str, ...]) -> Case:
    random_numbers = random.Random(f"{seed}/{number}")
    # The bits depend on V and the seed of the job alone, so the shape may vary.
    workload = Workload(pace=pace, hosts=random_numbers.choice((2, 3, 4)), ranks_per_host=random_numbers.choice((1, 2)),
                        spare_hosts=random_numbers.choice((0, 1, 2)),
                        micro_batches=random_numbers.choice(MICRO_BATCHES), micro_batch_ms=5,
                        gradient_mb=0.2, state_mb=random_numbers.choice((1, 16)))
    plan = schedule.wild(random_numbers.getrandbits(32), kinds, workload.ranks, STEPS, must=number)
    # Without spares all copies of the state may be lost at once: such a job continues from disk.
    has_checkpoints = workload.spare_hosts == 0 or random_numbers.random() < 0.3
    return Case(number, workload, plan, has_checkpoints)


def failures_of(case: Case, run: launch.Run, digest: str) -> list[str]:
    failures = [f"left behind: {what}" for what in run.left_behind]
    if not run.is_completed:
        reason = "not finished in time" if run.code is None else run.report.get("reason", "no report")
        return failures + [f"not completed: code {run.code}, {reason}\n{run.output[-4000:]}"]
    report = run.report
    if report["state_digest"] != digest:
        failures.append(f"digest {report['state_digest']}, not {digest}")
    wanted = {"consumed": STEPS * case.workload.micro_batches, "duplicated": 0, "skipped": 0}
    if report["samples"] != wanted:
        failures.append(f"samples {report['samples']}, not {wanted}; not in steps.csv: {missing_steps(run.turns)}")
    return failures + [f"incident without an end: {incident['kind']} of rank {incident['rank']}"
                       for incident in report["incidents"]
                       if incident["recovered_at_s"] is None and incident["action"] != "wait"]


def missing_steps(turns: list[dict]) -> list[int]:
    return sorted(set(range(STEPS)) - {int(turn["step"]) - 1 for turn in turns if not turn["flagged"]})


def run_case(case: Case, digest: str, keep: Path | None) -> tuple[launch.Run, list[str]]:
    failures: list[str] = []

    def command(folder: Path) -> list[str]:
        (folder / "faults").write_text(case.plan.text)
        disk = ("--checkpoint-dir", str(folder / "checkpoints"), "--checkpoint-every", str(CHECKPOINT_EVERY))
        return case.workload.command(folder / "report", STEPS, folder / "faults",
                                     flags=("--log-dir", str(folder / "logs"), *(disk if case.has_checkpoints else ())))

    def judge(run: launch.Run, folder: Path) -> None:
        failures.extend(failures_of(case, run, digest))
        if failures and keep is not None:
            shutil.copytree(folder, keep / str(case.number), dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("checkpoints", "controller.sock*", "*.socket"))

    return launch.run(command, LIMIT_S, before_removal=judge), failures


class References:
    """Digests of runs without faults. They depend on V and the size of the state, and on nothing else that is varied."""

    def __init__(self, pace: Path):
        self.pace = pace
        self.digests: dict[tuple[int, float], str] = {}

    def digest(self, workload: Workload) -> str:
        key = (workload.micro_batches, workload.state_mb)
        if key not in self.digests:
            calm = dataclasses.replace(workload, hosts=2, ranks_per_host=1).undisturbed()
            run = launch.run(lambda folder: calm.command(folder / "report", STEPS), LIMIT_S)
            if not run.is_completed:
                raise SystemExit(f"the run without faults has failed with code {run.code}:\n{run.output[-3000:]}")
            self.digests[key] = run.report["state_digest"]
        return self.digests[key]


def parsed_arguments() -> argparse.Namespace:
    parser = flags.parser(__doc__, "--pace", "--seed")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first schedule")
    parser.add_argument("--only", type=int, help="this one, with all of its output")
    parser.add_argument("--kinds", nargs="+", choices=tuple(schedule.KINDS), default=KINDS)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--keep", type=Path, help="folder for what runs that have failed leave")
    return parser.parse_args()


def main() -> int:
    launch.end_in_order()
    arguments = parsed_arguments()
    pace = arguments.pace.resolve()
    numbers = [arguments.only] if arguments.only is not None else range(arguments.first,
                                                                        arguments.first + arguments.count)
    print(f"seed {arguments.seed}, {len(numbers)} schedules", flush=True)
    cases = [case_of(arguments.seed, number, pace, tuple(arguments.kinds)) for number in numbers]
    references = References(pace)
    for case in cases:
        references.digest(case.workload)
    struck: collections.Counter[str] = collections.Counter()
    phases: collections.Counter[str] = collections.Counter()
    asked, failed = 0, []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = pool.map(lambda case: run_case(case, references.digest(case.workload), arguments.keep), cases)
        for case, (run, failures) in zip(cases, runs):
            asked += len(case.plan.faults)
            struck.update(fault["kind"] for fault in run.report.get("faults", []))
            phases.update(phase for fault in run.report.get("faults", []) for phase in ALL_PHASES
                          if f"phase={phase}" in fault["text"])
            print(f"{'FAILED' if failures else 'ok'} {case.number}: {case.shape}, {run.wall_s:.1f} s: "
                  f"{' '.join(fault.text for fault in case.plan.faults)}", flush=True)
            if arguments.only is not None:
                print(run.output)
            if failures:
                failed.append(case.number)
                print("\n".join(failures))
                kinds = "" if tuple(arguments.kinds) == KINDS else f" --kinds {' '.join(arguments.kinds)}"
                print(f"repeat: bench/recovery/random_schedules.py --pace {arguments.pace} --seed {arguments.seed} "
                      f"--only {case.number}{kinds}", flush=True)
    print(f"{len(cases) - len(failed)} of {len(cases)} schedules are right; failed: {failed or 'none'}")
    print(f"{struck.total()} of {asked} faults struck: " +
          ", ".join(f"{kind} {count}" for kind, count in sorted(struck.items())))
    print("in named phases: " + ", ".join(f"{phase} {phases[phase]}" for phase in ALL_PHASES))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
