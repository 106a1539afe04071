#!/usr/bin/env python3
"""Whether a job that was ended in any way continues from disk with the bits of one that never stopped.

Each case trains with checkpoints, ends at a random moment (by SIGTERM, by SIGKILL of everything, or because every host
is lost at once), and is resumed with 2, 3 or 4 hosts until its last step. Its digest must be that of an undisturbed run.

  bench/recovery/bench_resume.py --pace build/release/bin/pace --count 20 --out resume.json
"""

import argparse
import collections
import dataclasses
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import figures
import flags
import launch
import machine
from bench_recovery import reference_digest
from workload import Workload

STEPS = 200
EARLIEST_S, LATEST_S = 1.0, 5.0  # of the end of the first part; a run without an end takes about 8 s
CHECKPOINT_EVERY = 10
REQUEUE = 75
LIMIT_S = 120
ENDINGS = ("sigterm", "sigkill", "lost-hosts")


@dataclasses.dataclass(frozen=True)
class Case:
    number: int
    ending: str
    at_s: float
    hosts: int  # that continue

    @property
    def text(self) -> str:
        return f"{self.ending} after {self.at_s:.3f} s, resumed with {self.hosts} hosts"


def case_of(seed: int, number: int, ending: str) -> Case:
    random_numbers = random.Random(f"{seed}/{ending}/{number}")
    return Case(number, ending, random_numbers.uniform(EARLIEST_S, LATEST_S), random_numbers.choice((2, 3, 4)))


class Ending:
    """Ends the run when its time has come. Called a few times a second, so the rest of the time is slept here."""

    def __init__(self, case: Case):
        self.case = case
        self.due = time.monotonic() + case.at_s
        self.is_done = False

    def __call__(self, process: subprocess.Popen, mark: str) -> None:
        if self.is_done or time.monotonic() + 0.1 < self.due:
            return
        time.sleep(max(0.0, self.due - time.monotonic()))
        self.is_done = True
        if self.case.ending == "sigterm":
            process.send_signal(signal.SIGTERM)
            return
        for number, line in launch.processes_with(mark).items():
            is_of_host = " controller " not in line and " run " not in line
            if self.case.ending == "sigkill" or is_of_host:
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    continue


def saving(workload: Workload, directory: Path) -> Workload:
    return dataclasses.replace(workload, launcher_flags=("--checkpoint-dir", str(directory), "--checkpoint-every",
                                                         str(CHECKPOINT_EVERY)))


def first_part(case: Case, workload: Workload, directory: Path) -> list[str]:
    run = launch.run(lambda folder: saving(workload, directory).command(folder / "report", STEPS), LIMIT_S, Ending(case))
    if run.code is None:
        return [f"not ended within {LIMIT_S} s:\n{run.output[-2000:]}"]
    # A killed launcher leaves its folder to the next run.
    left = [what for what in run.left_behind if case.ending != "sigkill" or not what.startswith("file ")]
    problems = [f"left behind: {what}" for what in left]
    if case.ending == "sigterm" and run.code not in (0, REQUEUE):
        problems.append(f"code {run.code}, not {REQUEUE}:\n{run.output[-2000:]}")
    return problems


def second_part(case: Case, workload: Workload, directory: Path, digest: str) -> list[str]:
    resumed = dataclasses.replace(saving(workload, directory), hosts=case.hosts)
    resumed = dataclasses.replace(resumed, launcher_flags=(*resumed.launcher_flags, "--resume"))
    run = launch.run(lambda folder: resumed.command(folder / "report", STEPS), LIMIT_S)
    problems = [f"left behind: {what}" for what in run.left_behind]
    if not run.is_completed:
        return problems + [f"not completed after the resumption, code {run.code}:\n{run.output[-2000:]}"]
    if run.report["state_digest"] != digest:
        problems.append(f"digest {run.report['state_digest']}, not {digest}")
    return problems


def problems_of(case: Case, workload: Workload, digest: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="paceline-resume-") as directory:
        return (first_part(case, workload, Path(directory)) or
                second_part(case, workload, Path(directory), digest))


def parsed_arguments() -> argparse.Namespace:
    parser = flags.parser(__doc__, "--pace", "--out", "--seed")
    parser.add_argument("--count", type=int, default=20, help="cases of each ending")
    parser.add_argument("--endings", nargs="+", choices=ENDINGS, default=ENDINGS)
    parser.add_argument("--only", type=int, help="the case of this number alone")
    return parser.parse_args()


def main() -> int:
    launch.end_in_order()
    arguments = parsed_arguments()
    workload = Workload(pace=arguments.pace.resolve(), ranks_per_host=1, spare_hosts=0, micro_batches=16,
                        micro_batch_ms=10, gradient_mb=0.2, state_mb=16)
    host = machine.described()
    numbers = [arguments.only] if arguments.only is not None else range(arguments.count)
    cases = [case_of(arguments.seed, number, ending) for ending in arguments.endings for number in numbers]
    print(f"seed {arguments.seed}, {len(cases)} cases", flush=True)
    digest = reference_digest(workload, STEPS)
    right: collections.Counter[str] = collections.Counter()
    problems = []
    for case in cases:
        found = problems_of(case, workload, digest)
        right[case.ending] += not found
        problems += [f"{case.text}: {what}" for what in found]
        print(f"{'FAILED' if found else 'ok'} {case.number}: {case.text}", flush=True)
        for what in found:
            print(f"PROBLEM {what}\nrepeat: bench/recovery/bench_resume.py --pace {arguments.pace} --seed "
                  f"{arguments.seed} --endings {case.ending} --only {case.number}", flush=True)
    print(", ".join(f"{ending}: {right[ending]} of {len(numbers)} right" for ending in arguments.endings))
    if arguments.out:
        figures.write_json(arguments.out, {
            "machine": host, "seed": arguments.seed, "workload": workload.described(), "right": right,
            "cases": [dataclasses.asdict(case) for case in cases], "problems": problems})
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
