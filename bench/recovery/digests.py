#!/usr/bin/env python3
"""The same bits whatever happens: one training in exact mode on many shapes of job, with and without faults.

Hosts, ranks per host, spares and faults vary; seed and V do not, so that all runs must end with one `state_digest`.
Once with the emulated trainer, once with gpt.

  bench/recovery/digests.py --pace build/release/bin/pace
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import flags
import launch

MICRO_BATCHES = 16
LIMIT_S = 400
# The faults of scripts/demo, at these parts of a run.
FAULTS = ("kill@step={12}:rank={last},phase=compute", "corrupt@step={12}", "hang@step={28}:rank=1",
          "slow@step={44}:rank={last},factor=3,for=4s", "stop@step={66}:rank=0", "lose-host@step={84}:rank=1,for=10s")


@dataclasses.dataclass(frozen=True)
class Shape:
    hosts: int
    ranks_per_host: int
    spares: int
    has_faults: bool

    def __str__(self) -> str:
        return (f"{self.hosts} hosts, {self.ranks_per_host} ranks each, {self.spares} spares, " +
                ("faults" if self.has_faults else "no faults"))


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    steps: int
    arguments: tuple[str, ...]


PROGRAMS = {program.name: program for program in (
    Program("emulated", 300, ("--micro-batch-ms", "5", "--gradient-mb", "0.2", "--state-mb", "8", "--print-every", "100")),
    Program("gpt", 300, ("--layers", "2", "--width", "64", "--heads", "2", "--context", "32", "--batch", "1")))}


def shapes() -> Iterator[Shape]:
    for hosts in (2, 3, 4):
        for ranks_per_host in (1, 2):
            for spares in (0, 1):
                yield Shape(hosts, ranks_per_host, spares, False)
                yield Shape(hosts, ranks_per_host, spares, True)


def faults_for(shape: Shape, steps: int) -> str:
    names = {"last": str(shape.hosts * shape.ranks_per_host - 1)}
    names |= {str(part): str(steps * part // 100) for part in (12, 28, 44, 66, 84)}
    lines = []
    for fault in FAULTS:
        for name, value in names.items():
            fault = fault.replace("{" + name + "}", value)
        lines.append(fault + "\n")
    return "".join(lines)


def run(pace: Path, program: Program, shape: Shape, seed: int) -> launch.Run:
    def command(folder: Path) -> list[str]:
        (folder / "faults").write_text(faults_for(shape, program.steps))
        return [str(pace), "run", "--local", str(shape.hosts), "--nproc-per-node", str(shape.ranks_per_host),
                "--spares", str(shape.spares), "--micro-batches", str(MICRO_BATCHES), "--seed", str(seed),
                "--report", str(folder / "report"), *(["--faults", str(folder / "faults")] if shape.has_faults else []),
                "--", str(pace.parent / program.name), "--steps", str(program.steps), "--seed", str(seed),
                *program.arguments]
    return launch.run(command, LIMIT_S)


def problems_of(program: Program, done: launch.Run, digest: str | None) -> list[str]:
    problems = [f"left behind: {what}" for what in done.left_behind]
    if not done.is_completed:
        return problems + [f"not completed, code {done.code}\n{done.output[-3000:]}"]
    if digest is not None and done.report["state_digest"] != digest:
        problems.append(f"digest {done.report['state_digest']}, not {digest}")
    wanted = {"consumed": program.steps * MICRO_BATCHES, "duplicated": 0, "skipped": 0}
    if done.report["samples"] != wanted:
        problems.append(f"samples {done.report['samples']}, not {wanted}")
    return problems


def main() -> int:
    parser = flags.parser(__doc__, "--pace", "--seed")
    parser.add_argument("--programs", nargs="+", choices=tuple(PROGRAMS), default=tuple(PROGRAMS))
    launch.end_in_order()
    arguments = parser.parse_args()
    failed = 0
    for program in (PROGRAMS[name] for name in arguments.programs):
        digest: str | None = None
        for shape in shapes():
            done = run(arguments.pace.resolve(), program, shape, arguments.seed)
            problems = problems_of(program, done, digest)
            if digest is None and not problems:
                digest = done.report["state_digest"]
            struck = len(done.report.get("faults", []))
            print(f"{'FAILED' if problems else 'ok'} {program.name}, {shape}: {done.wall_s:.1f} s, {struck} faults struck, "
                  f"digest {done.report.get('state_digest', '-')}", flush=True)
            for problem in problems:
                print(f"  {problem}", flush=True)
            failed += bool(problems)
    print("all digests are equal" if failed == 0 else f"{failed} runs FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
