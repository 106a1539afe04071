#!/usr/bin/env python3
"""What exact mode costs in quality: `gpt` trained with --reduce exact and with --reduce fast, for as many steps.

Prints the held-out losses, their difference, and how many steps were computed again because a gradient had outgrown
its scale. Both modes see the same samples in the same order; they differ in rounding alone.

  bench/recovery/bench_exactness.py --pace build/release/bin/pace --out exactness.json
"""

import argparse
import dataclasses
import sys
from pathlib import Path

import figures
import flags
import launch
import machine

MODES = ("exact", "fast")
MOST_DIFFERENCE = 0.02  # nats per byte
MOST_OVERFLOW = 0.005  # of the steps that count
SETTLED = 10  # steps after which overflows count
# Small enough that 320 micro-batches a step are a matter of a second.
SMALL = ("--layers", "2", "--width", "64", "--heads", "2", "--context", "32", "--batch", "1")


@dataclasses.dataclass(frozen=True)
class Case:
    micro_batches: int
    model: tuple[str, ...]  # flags of gpt; none: its defaults


@dataclasses.dataclass
class Outcome:
    """How one run has ended. `overflows`: steps whose round was committed as flagged and computed again."""

    mode: str
    held_out_loss: float
    overflows: list[int]
    digest: str
    wall_s: float


def run(arguments: argparse.Namespace, case: Case, mode: str) -> Outcome:
    def command(folder: Path) -> list[str]:
        return [str(arguments.pace), "run", "--local", str(arguments.ranks), "--micro-batches",
                str(case.micro_batches), "--reduce", mode, "--seed", str(arguments.seed),
                "--report", str(folder / "report"), "--", str(arguments.pace.parent / "gpt"),
                "--steps", str(arguments.steps), "--eval-every", str(arguments.steps), "--seed", str(arguments.seed),
                *case.model]
    done = launch.run(command, arguments.limit_s)
    if not done.is_completed:
        raise SystemExit(f"V={case.micro_batches}, {mode}: not completed, code {done.code}\n{done.output[-3000:]}")
    # The first rounds of all measure: there is no scale yet that could be too small.
    overflows = [int(turn["step"]) for turn in done.turns if turn["flagged"]]
    return Outcome(mode, done.report["metrics"]["held_out_loss"][-1][1], overflows, done.report["state_digest"],
                   round(done.wall_s, 1))


def problems_of(case: Case, outcomes: dict[str, Outcome], steps: int) -> list[str]:
    problems = []
    difference = abs(outcomes["exact"].held_out_loss - outcomes["fast"].held_out_loss)
    share = late(outcomes["exact"]) / (steps - SETTLED)
    print(f"V={case.micro_batches}: held-out loss {outcomes['exact'].held_out_loss:.4f} exact, "
          f"{outcomes['fast'].held_out_loss:.4f} fast ({difference:.4f} nats apart, at most {MOST_DIFFERENCE} promised); "
          f"{late(outcomes['exact'])} of {steps - SETTLED} steps after the first {SETTLED} computed again for overflow "
          f"({share:.2%}, at most {MOST_OVERFLOW:.1%} promised); flagged rounds before steps "
          f"{outcomes['exact'].overflows}", flush=True)
    if difference > MOST_DIFFERENCE:
        problems.append(f"V={case.micro_batches}: exact and fast are {difference:.4f} nats apart")
    if share > MOST_OVERFLOW:
        problems.append(f"V={case.micro_batches}: {share:.2%} of the steps were computed again")
    if outcomes["fast"].overflows:
        problems.append(f"V={case.micro_batches}: fast mode has flagged {outcomes['fast'].overflows}")
    return problems


def late(outcome: Outcome) -> int:
    return sum(step > SETTLED for step in outcome.overflows)


def parsed_arguments() -> argparse.Namespace:
    parser = flags.parser(__doc__, "--pace", "--out", "--seed")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--small", action="store_true", help="the small model for V = 16 too")
    parser.add_argument("--limit-s", type=float, default=1800, help="of one run")
    parser.add_argument("--quick", action="store_true", help="the small model, 40 steps: does it work at all?")
    arguments = parser.parse_args()
    arguments.pace = arguments.pace.resolve()
    if arguments.quick:
        arguments.steps, arguments.small = 40, True
    if arguments.steps <= SETTLED:
        parser.error(f"--steps {arguments.steps}: more than {SETTLED} are needed")
    return arguments


def main() -> int:
    launch.end_in_order()
    arguments = parsed_arguments()
    host = machine.described()
    problems, results = [], []
    for case in (Case(16, SMALL if arguments.small else ()), Case(320, SMALL)):
        outcomes = {mode: run(arguments, case, mode) for mode in MODES}
        problems += problems_of(case, outcomes, arguments.steps)
        results.append(dataclasses.asdict(case) |
                       {mode: dataclasses.asdict(outcome) for mode, outcome in outcomes.items()})
        if arguments.out:
            figures.write_json(arguments.out, {"machine": host, "seed": arguments.seed, "steps": arguments.steps,
                                               "ranks": arguments.ranks, "cases": results, "problems": problems})
    for problem in problems:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
