#!/usr/bin/env python3
"""Goal: a job continues from disk with the bits of an undisturbed run. Method: real processes, ended in every way.

One case: test_resume.py --pace PATH --trainer PATH CASE
"""

import os
import re
import signal
import subprocess
from pathlib import Path

from run_test import Case, arguments_of, expect, run_case

STEPS = 120


class ResumeCase(Case):
    """Runs of one trainer whose checkpoints are in one directory."""

    @property
    def directory(self) -> Path:
        return self.folder / "checkpoints"

    def arguments(self, hosts: int, *flags: str) -> list[str]:
        return ["--local", str(hosts), *flags, "--", self.tools.trainer, "--steps", str(STEPS), "--micro-batch-ms", "5",
                "--gradient-mb", "0.2", "--print-every", "1"]

    def digest(self, hosts: int, *flags: str, code: int = 0) -> str:
        """What the ranks say at the end; all the same."""
        status, out, err = self.run(*self.arguments(hosts, *flags))
        expect(status == code, f"exit code {status}, not {code}\n{out[-1500:]}\n{err[-4000:]}")
        digests = set(re.findall(r"state digest ([0-9a-f]{16})", out))
        expect(len(digests) == 1, f"digests {digests}\n{err[-4000:]}")
        self.last_error = err
        return digests.pop()

    def calm_digest(self) -> str:
        return self.digest(4, "--micro-batches", "16")

    def start_saving(self) -> subprocess.Popen:
        return subprocess.Popen([self.tools.pace, "run", *self.arguments(
            4, "--micro-batches", "16", "--checkpoint-dir", str(self.directory), "--checkpoint-every", "10")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment, cwd=self.folder,
            start_new_session=True)

    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("step-*.checkpoint"))

    def resumed(self, hosts: int, *flags: str) -> str:
        digest = self.digest(hosts, "--checkpoint-dir", str(self.directory), "--resume", *flags)
        expect("resuming at step" in self.last_error, self.last_error)
        return digest

    def copy_of_checkpoints(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.directory.iterdir()}

    def put_back(self, copy: dict[str, bytes]) -> None:
        for path in self.directory.iterdir():
            path.unlink()
        for name, content in copy.items():
            (self.directory / name).write_bytes(content)


def stopped_and_resumed(case: ResumeCase) -> None:
    calm = case.calm_digest()
    run = case.start_saving()
    case.wait_for_line(run, r"step 35 of")
    run.send_signal(signal.SIGTERM)
    status, _, err = case.finish(run)
    expect(status == 75, f"exit code {status}, not 75\n{err}")
    names = case.checkpoints()
    expect(len(names) == 2, str(names))
    last = int(re.findall(r"\d+", names[-1])[0])
    expect(35 <= last < STEPS, f"the step at which it stopped is saved: {names}")
    saved = case.copy_of_checkpoints()
    for hosts in (2, 3, 4):
        case.put_back(saved)
        digest = case.resumed(hosts)
        expect(f"resuming at step {last} " in case.last_error, case.last_error)
        expect(digest == calm, f"{hosts} hosts: {digest}, not {calm}")


def killed_and_resumed(case: ResumeCase) -> None:
    calm = case.calm_digest()
    run = case.start_saving()
    case.wait_for_line(run, r"step 35 of")
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    case.expect_nothing_left(5)
    # A disk that has lost what it acknowledged: the newest is cut, the one before is taken.
    newest = case.directory / case.checkpoints()[-1]
    saved = case.copy_of_checkpoints()
    digest = case.resumed(3)
    expect(digest == calm, f"{digest}, not {calm}")
    case.put_back(saved)
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    digest = case.resumed(3)
    expect(digest == calm, f"from the one before: {digest}, not {calm}")
    expect("does not match its checksum; resuming from" in case.last_error, case.last_error)


def rolled_back(case: ResumeCase) -> None:
    calm = case.calm_digest()
    faults = [flag for rank in range(4) for flag in ("--fault", f"kill@step=25:rank={rank}")]
    digest = case.digest(4, "--micro-batches", "16", "--checkpoint-dir", str(case.directory), "--checkpoint-every",
                         "10", *faults)
    expect("rolled back from step" in case.last_error, case.last_error)
    expect(digest == calm, f"{digest}, not {calm}\n{case.last_error}")
    status, _, err = case.run(*case.arguments(4, "--micro-batches", "16", *faults))
    expect(status == 75 and "--checkpoint-dir" in err, f"exit code {status}\n{err}")


def misfits(case: ResumeCase) -> None:
    """What does not belong to the checkpoint is named before anything starts."""
    run = case.start_saving()
    case.wait_for_line(run, r"step 15 of")
    run.send_signal(signal.SIGTERM)
    case.finish(run)
    saving = ("--checkpoint-dir", str(case.directory), "--resume")
    for flags, named in ((("--micro-batches", "8"), "--micro-batches 8"), (("--seed", "5"), "--seed 5")):
        status, _, err = case.run(*case.arguments(2, *saving, *flags))
        expect(status == 64 and named in err, f"exit code {status}\n{err}")
    status, _, err = case.run("--local", "2", *saving, "--", case.tools.trainer, "--steps", "30", "--state-mb", "2")
    expect(status != 0 and "its state 'state' has" in err, f"exit code {status}\n{err}")


CASES = {function.__name__: function for function in (stopped_and_resumed, killed_and_resumed, rolled_back, misfits)}


if __name__ == "__main__":
    raise SystemExit(run_case(arguments_of(__doc__, CASES), CASES, ResumeCase))
