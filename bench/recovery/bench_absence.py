#!/usr/bin/env python3
"""What training notices of a controller or an agent that is killed, and how soon the next one has taken over.

Controllers are killed at random microseconds, in named phases of a step and between Prepare and Activate of a repair;
in some cases a rank is killed while there is none. Agents are killed likewise. Bounds: no step over twice the median
unless a fault is being repaired; a run adopted within 2 s; a rank killed meanwhile repaired within 1 s of the return;
one incident for each fault.

  bench/recovery/bench_absence.py --pace build/release/bin/pace --out absence.json
"""

import argparse
import dataclasses
import random
import statistics
import sys
from pathlib import Path

import figures
import flags
import judge
import launch
import machine
import schedule
from bench_recovery import reference_digest
from workload import Workload

ADOPTED_S = 2.0
REPAIRED_S = 1.0
LONGEST_STEPS = 2.0  # medians
STEPS_PER_RUN = 1200
SETTLE_S = 3.0
CASES = ("controller", "controller-in-repair", "rank-meanwhile", "agent")


def faults_of(case: str, random_numbers: random.Random, step: int, workload: Workload) -> list[schedule.Fault]:
    victim = random_numbers.randrange(workload.ranks)
    other = (victim + random_numbers.randrange(1, workload.ranks)) % workload.ranks
    if case == "controller-in-repair":  # a rank that stands still between Prepare and Activate tells the moment
        return [schedule.Fault("kill", step, victim),
                schedule.Fault("kill-controller", step, other, "prepare", random_numbers.randrange(3000))]
    if case == "rank-meanwhile":
        return [schedule.Fault("kill-controller", step, other), schedule.Fault("kill", step, victim, None, 3000)]
    kind = "kill-agent" if case == "agent" else "kill-controller"
    return [schedule.random_fault(random_numbers, kind, step, range(workload.ranks), workload.step_s)]


@dataclasses.dataclass(frozen=True)
class Plan:
    steps: int
    cases: tuple[tuple[str, tuple[schedule.Fault, ...]], ...]

    @property
    def faults(self) -> tuple[schedule.Fault, ...]:
        return tuple(fault for _, faults in self.cases for fault in faults)


def plans_of(arguments: argparse.Namespace, workload: Workload) -> list[Plan]:
    random_numbers = random.Random(arguments.seed)
    cases = [case for case in CASES for _ in range(getattr(arguments, case.replace("-", "_")))]
    random_numbers.shuffle(cases)
    plans: list[Plan] = []
    planned: list[tuple[str, tuple[schedule.Fault, ...]]] = []
    step = schedule.WARM_UP_STEPS
    for case in cases:
        if step > arguments.steps - schedule.WIND_DOWN_STEPS - SETTLE_S / workload.step_s:
            plans.append(Plan(arguments.steps, tuple(planned)))
            planned, step = [], schedule.WARM_UP_STEPS
        planned.append((case, tuple(faults_of(case, random_numbers, step + random_numbers.randrange(5), workload))))
        step += round(SETTLE_S / workload.step_s)
    return plans + [Plan(arguments.steps, tuple(planned))]


@dataclasses.dataclass
class Result:
    longest_steps: list[float] = dataclasses.field(default_factory=list)  # in medians, without a repair
    adopted_ms: list[float] = dataclasses.field(default_factory=list)
    repaired_ms: list[float] = dataclasses.field(default_factory=list)  # from the return of the controller
    problems: list[str] = dataclasses.field(default_factory=list)
    struck: int = 0

    def add(self, number: int, plan: Plan, run: launch.Run, digest: str) -> None:
        problems = [f"left behind: {what}" for what in run.left_behind]
        if not run.is_completed:
            problems.append(f"not completed, code {run.code}:\n{run.output[-3000:]}")
        elif run.report["state_digest"] != digest:
            problems.append(f"digest {run.report['state_digest']}, not {digest}")
        if run.report:
            problems += self.judge(plan, run)
        faults = " ".join(fault.text for fault in plan.faults)
        self.problems += [f"run {number}: {problem}; faults: {faults}" for problem in problems]

    def judge(self, plan: Plan, run: launch.Run) -> list[str]:
        verdict = judge.judge(run.report, run.turns, tuple(fault.text for fault in plan.faults))
        problems = [f"{name}: {what}" for name in ("missing", "extra", "not_struck") for what in getattr(verdict, name)]
        self.struck += len(verdict.samples)
        return problems + self.adoptions(run) + self.repairs(run) + self.steps(run)

    def adoptions(self, run: launch.Run) -> list[str]:
        problems = []
        for controller in run.report["controllers"]:
            if controller["adopted_at_s"] is None:
                problems.append(f"the controller of {controller['started_at_s']} s has adopted nothing")
                continue
            taken_s = controller["adopted_at_s"] - controller["started_at_s"]
            self.adopted_ms.append(taken_s * 1e3)
            if taken_s > ADOPTED_S:
                problems.append(f"adopted after {taken_s:.2f} s")
        return problems

    def repairs(self, run: launch.Run) -> list[str]:
        """Of ranks that were killed while there was no controller."""
        problems = []
        for controller in run.report["controllers"]:
            killed = [incident for incident in run.report["incidents"] if incident["injected_at_s"] is not None
                      and 0 <= controller["started_at_s"] - incident["injected_at_s"] < 1
                      or incident["injected_at_s"] is not None
                      and 0 <= incident["injected_at_s"] - controller["started_at_s"]
                      and incident["injected_at_s"] < (controller["adopted_at_s"] or 0)]
            for incident in killed:
                if incident["recovered_at_s"] is None:
                    problems.append(f"not repaired: {judge.named(incident)}")
                    continue
                taken_s = incident["recovered_at_s"] - max(controller["started_at_s"], incident["injected_at_s"])
                self.repaired_ms.append(taken_s * 1e3)
                if taken_s > REPAIRED_S:
                    problems.append(f"repaired {taken_s:.2f} s after the return: {judge.named(incident)}")
        return problems

    def steps(self, run: launch.Run) -> list[str]:
        pairs = [(earlier, later) for earlier, later in zip(run.turns, run.turns[1:])
                 if later["turn"] == earlier["turn"] + 1]
        if not pairs:
            return ["no turns"]
        lengths = [(later["at_s"] - earlier["at_s"], earlier, later) for earlier, later in pairs[5:]]
        median = statistics.median(length for length, _, _ in lengths)
        repairs = [(incident["injected_at_s"] or incident["detected_at_s"], incident["recovered_at_s"] or float("inf"))
                   for incident in run.report["incidents"]]
        free = [(length / median, later) for length, earlier, later in lengths
                if not any(begin <= later["at_s"] and earlier["at_s"] <= end for begin, end in repairs)]
        self.longest_steps.append(max(length for length, _ in free))
        return [f"step {int(later['step'])} took {length:.1f} medians at {later['at_s']:.3f} s"
                for length, later in free if length > LONGEST_STEPS]


def parsed_arguments() -> argparse.Namespace:
    parser = flags.parser(__doc__, "--pace", "--out", "--seed")
    parser.add_argument("--controller", type=int, default=140, help="kills at random and in phases of a step")
    parser.add_argument("--controller-in-repair", type=int, default=40, help="kills between Prepare and Activate")
    parser.add_argument("--rank-meanwhile", type=int, default=20, help="kills after which a rank is killed, too")
    parser.add_argument("--agent", type=int, default=100, help="agents killed")
    parser.add_argument("--steps", type=int, default=STEPS_PER_RUN, help="of each run")
    return parser.parse_args()


def main() -> int:
    launch.end_in_order()
    arguments = parsed_arguments()
    workload = Workload(pace=arguments.pace.resolve())
    plans = plans_of(arguments, workload)
    print(f"seed {arguments.seed}, {len(plans)} runs of {arguments.steps} steps", flush=True)
    host = machine.described()
    digest = reference_digest(workload, arguments.steps)
    result = Result()
    for number, plan in enumerate(plans, 1):
        def command(folder: Path, plan=plan) -> list[str]:
            (folder / "faults").write_text("".join(fault.text + "\n" for fault in plan.faults))
            return workload.command(folder / "report", plan.steps, folder / "faults")
        run = launch.run(command, 120 + plan.steps * workload.step_s * 10)
        result.add(number, plan, run, digest)
        print(f"run {number} of {len(plans)}: code {run.code}, {run.wall_s:.0f} s, {len(plan.faults)} faults, "
              f"{len(result.problems)} problems so far", flush=True)
    measures = {"adopted_ms": result.adopted_ms, "repaired_after_return_ms": result.repaired_ms,
                "longest_step_in_medians": result.longest_steps}
    figures.print_table(["figure", "count", "p50", "p99", "max"],
                        [[name, *figures.summary(samples).values()] for name, samples in measures.items()])
    for problem in result.problems:
        print(f"PROBLEM {problem}")
    if arguments.out:
        figures.write_json(arguments.out, {
            "machine": host, "seed": arguments.seed, "workload": workload.described(), "faults_struck": result.struck,
            "figures": {name: figures.summary(samples) for name, samples in measures.items()}, "samples": measures,
            "problems": result.problems})
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
