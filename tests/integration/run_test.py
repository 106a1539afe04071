#!/usr/bin/env python3
"""Goal: `pace run` keeps its promises with real processes. Method: each case starts it and looks from outside.

One case: run_test.py --pace PATH --trainer PATH --unaware PATH CASE
"""

import argparse
import contextlib
import csv
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LIMIT_S = 45  # of one `pace run`; ctest's own limit is above it
MARK = "PACELINE_TEST_MARK"  # in the environment of everything a case starts: finds what is left behind


class Failure(Exception):
    pass


def expect(condition: bool, text: str) -> None:
    if not condition:
        raise Failure(text)


class Case:
    def __init__(self, tools: argparse.Namespace, folder: Path):
        self.tools = tools
        self.folder = folder
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.environment = os.environ | {MARK: self.mark, "NO_COLOR": "1", "TMPDIR": str(folder)}

    def start(self, *arguments: str) -> subprocess.Popen:
        return subprocess.Popen([self.tools.pace, "run", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=self.environment, cwd=self.folder)

    def finish(self, run: subprocess.Popen) -> tuple[int, str, str]:
        try:
            out, err = run.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            run.kill()
            out, err = run.communicate()
            raise Failure(f"not finished after {LIMIT_S} s\n{out[-3000:]}\n{err[-3000:]}") from None
        return run.returncode, out, err

    def run(self, *arguments: str) -> tuple[int, str, str]:
        return self.finish(self.start(*arguments))

    def trained(self, name: str, *flags: str, code: int = 0, steps: int = 60, micro_batch_ms: int = 5,
                program: str | None = None, trainer: tuple[str, ...] = ()) -> dict:
        """The report of a run of the emulated trainer, or of `program` that runs it, on four hosts."""
        report = self.folder / name
        status, out, err = self.run("--local", "4", "--micro-batches", "16", "--report", str(report), *flags, "--",
                                    program or self.tools.trainer, "--steps", str(steps),
                                    "--micro-batch-ms", str(micro_batch_ms),
                                    "--gradient-mb", "0.2", "--seed", "1", *trainer)
        expect(status == code, f"exit code {status}, not {code}\n{out[-2000:]}\n{err[-4000:]}")
        return self.report(report) | {"stderr": err, "stdout": out}

    @staticmethod
    def report(folder: Path) -> dict:
        return json.loads((folder / "report.json").read_text())

    @staticmethod
    def turns(folder: Path) -> list[dict]:
        with (folder / "steps.csv").open() as file:
            return list(csv.DictReader(file))

    def processes(self) -> Iterator[tuple[str, str]]:
        """Number and state of each process of this case that is alive, by the mark in its environment."""
        for process in Path("/proc").iterdir():
            if not process.name.isdigit() or int(process.name) == os.getpid():
                continue
            try:
                if f"{MARK}={self.mark}".encode() in (process / "environ").read_bytes():
                    state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
                    if state != "Z":
                        yield process.name + " " + (process / "cmdline").read_text().replace("\0", " "), state
            except OSError:
                continue

    def left_behind(self) -> list[str]:
        return [process for process, _ in self.processes()]

    def frozen(self) -> list[str]:
        return [process for process, state in self.processes() if state == "T"]

    def expect_nothing_left(self, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while left := self.left_behind():
            expect(time.monotonic() < deadline, f"left behind after {limit_s} s: {left}")
            time.sleep(0.02)

    def wait_for_line(self, run: subprocess.Popen, pattern: str) -> str:
        """Reads standard output up to a line that matches."""
        deadline = time.monotonic() + LIMIT_S
        seen = []
        assert run.stdout is not None
        while time.monotonic() < deadline:
            line = run.stdout.readline()
            if not line:
                break
            seen.append(line)
            if re.search(pattern, line):
                return line
        run.kill()
        raise Failure(f"no line with {pattern!r}:\n{''.join(seen)[-2000:]}\n{run.communicate()[1][-2000:]}")


def wait_for_error(run: subprocess.Popen, pattern: str) -> str:
    """What was read from standard error, up to a line that matches."""
    seen = ""
    assert run.stderr is not None
    while line := run.stderr.readline():
        seen += line
        if re.search(pattern, line):
            return seen
    raise Failure(f"no line with {pattern!r}:\n{seen[-2000:]}")


def completes(case: Case) -> None:
    report = case.trained("calm")
    expect(report["verdict"] == "completed", report["verdict"])
    expect(report["world"] == {"hosts": 4, "ranks": 4, "spares": 0, "spare_mode": "hot", "micro_batches": 16},
           str(report["world"]))
    expect(report["steps"]["committed"] == 60, str(report["steps"]))
    expect(report["samples"] == {"consumed": 960, "duplicated": 0, "skipped": 0}, str(report["samples"]))
    expect(report["incidents"] == [], str(report["incidents"]))
    total = sum(report["goodput"]["categories"].values())
    expected = report["goodput"]["wall_s"] * 4
    expect(abs(total - expected) < 0.02 * expected, f"categories add up to {total}, not {expected}")
    expect(re.search(r"^\[host\d rank\d\] ", report["stdout"], re.M) is not None, "no prefixed output")
    lines = (case.folder / "calm" / "steps.csv").read_text().splitlines()
    expect(len(lines) == 1 + 60 + report["steps"]["measuring_rounds"], f"{len(lines)} lines in steps.csv")
    expect("<script>" in (case.folder / "calm" / "report.html").read_text(), "no report.html")
    expect(list(case.folder.glob("paceline-run-*")) == [], "the run's private folder is still there")


def kill_keeps_the_bits(case: Case) -> None:
    calm = case.trained("calm")
    broken = case.trained("broken", "--fault", "kill@step=20:rank=3,phase=compute", "--fault",
                          "kill@step=40:rank=1,phase=reduce")
    expect(broken["stderr"].count("fault: kill rank") == 2, broken["stderr"])
    expect(len(broken["incidents"]) >= 2, f"{len(broken['incidents'])} incidents\n{broken['stderr']}")
    for incident in broken["incidents"][:2]:
        expect(incident["detect_ms"] is not None, f"not matched to its fault: {incident}")
        expect(incident["recovered_at_s"] is not None, f"not recovered: {incident}")
    expect(broken["samples"]["consumed"] == 960 and broken["samples"]["duplicated"] == 0, str(broken["samples"]))
    expect(broken["state_digest"] == calm["state_digest"],
           f"digests differ: {calm['state_digest']} {broken['state_digest']}\n{broken['stderr']}")


POISON = ["--fault", "poison@step=20:rank=1,micro_batch=5"]
SLOWLY = {"steps": 40, "micro_batch_ms": 20}  # the injector sees every micro-batch
POISONED = "micro-batch 5 of step 20"


def poisons(report: dict) -> list[dict]:
    return [incident for incident in report["incidents"] if incident["kind"] == "poison"]


def poison_stops(case: Case) -> None:
    checkpoints = ["--checkpoint-dir", str(case.folder / "checkpoints")]
    report = case.trained("poisoned", *checkpoints, *POISON, code=93, **SLOWLY)
    expect(report["verdict"] == "failed", report["verdict"])
    found = poisons(report)
    expect(len(found) == 1 and found[0]["action"] == "stop", str(found))
    for text in (found[0]["evidence"], report["stderr"]):
        expect(POISONED in text and "seed 0x" in text, text)
        expect(text.count("last lines:") + text.count("said nothing") == 2, f"not both ranks: {text}")
    crashes = [incident for incident in report["incidents"] if incident["kind"] == "crash"]
    expect(len(crashes) == 2, f"{len(crashes)} ranks ended by it")
    names = [path.name for path in (case.folder / "checkpoints").glob("step-*20.checkpoint")]
    expect(len(names) == 1, f"the state of the last commit is not saved: {names}")
    resumed = case.trained("resumed", *checkpoints, "--resume", **SLOWLY)
    calm = case.trained("calm", **SLOWLY)
    expect(resumed["state_digest"] == calm["state_digest"], "the saved state is not that of the last commit")
    expect(calm["exact"] and resumed["exact"], "an exact run is not marked as one")


def poison_skips(case: Case) -> None:
    reports = [case.trained(name, "--poison", "skip", *POISON, **SLOWLY) for name in ("once", "again")]
    for report in reports:
        expect(report["samples"] == {"consumed": 639, "duplicated": 0, "skipped": 1}, str(report["samples"]))
        expect(not report["exact"], "a run that left a micro-batch out is marked as exact")
        expect([incident["action"] for incident in poisons(report)] == ["skip"], str(poisons(report)))
        expect(POISONED in report["stderr"], report["stderr"])
    expect(reports[0]["state_digest"] == reports[1]["state_digest"], "what is left out is not the same")
    calm = case.trained("calm", **SLOWLY)
    expect(calm["state_digest"] != reports[0]["state_digest"], "nothing is left out")


def killed_agent(case: Case) -> None:
    calm = case.trained("calm")
    broken = case.trained("broken", "--fault", "kill-agent@step=20:rank=2")
    expect("the agent of" in broken["stderr"], broken["stderr"])
    expect(broken["state_digest"] == calm["state_digest"], f"digests differ\n{broken['stderr']}")


def killed_controller(case: Case) -> None:
    report = case.trained("broken", "--fault", "kill-controller@step=20")
    expect("the controller was ended by signal 9; starting it again" in report["stderr"], report["stderr"])
    expect(report["steps"]["committed"] >= 55, str(report["steps"]))
    controller, = report["controllers"]
    expect(controller["adopted_at_s"] is not None, f"the new controller has told of no commit: {controller}")
    expect(not report["incidents"], str(report["incidents"]))
    calm = case.trained("calm")
    expect(report["state_digest"] == calm["state_digest"], f"digests differ\n{report['stderr']}")


def journal_cannot_be_written(case: Case) -> None:
    """The controller is away while its journal is held by another, as on a full disk, and training goes on."""
    report = case.folder / "report"
    run = case.start("--local", "2", "--report", str(report), "--fault", "kill-controller@step=100", "--", case.tools.trainer,
                     "--steps", "900", "--micro-batch-ms", "10", "--gradient-mb", "0.2", "--print-every", "1")
    case.wait_for_line(run, r"step 5 of")
    journal, = case.folder.glob("paceline-run-*/journal.sqlite")
    with contextlib.closing(sqlite3.connect(journal, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        error = wait_for_error(run, r"cannot write its journal")
        expect(str(journal) in error and "another process holds it locked" in error, error)
    case.wait_for_line(run, r"step 899 of")
    status, _, err = case.finish(run)
    expect(status == 0, f"exit code {status}\n{err}")
    # A controller that finds its journal held waits 5 s for it: a step that waited with it would be as long.
    longest = max(float(turn["step_ms"]) for turn in case.turns(report))
    expect(longest < 4000, f"a step of {longest} ms")


def taken_address(case: Case) -> None:
    """A second controller on the same address and journal says so, and the first one keeps both."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % free.getsockname()[1]
    command = [case.tools.pace, "controller", "--listen", address, "--journal", str(case.folder / "journal")]
    first = subprocess.Popen(command, env=case.environment, stderr=subprocess.PIPE, text=True)
    try:
        recovery = [case.tools.pace, "recovery", "observe", "--controller", address]
        expect(subprocess.run(recovery, env=case.environment, check=False, timeout=20).returncode == 0, "no controller")
        second = subprocess.run(command, env=case.environment, capture_output=True, text=True, check=False, timeout=20)
        expect(second.returncode == 69, f"exit code {second.returncode}\n{second.stderr}")
        expect(second.stderr.count("\n") == 1 and address in second.stderr, second.stderr)
        expect(subprocess.run(recovery, env=case.environment, check=False, timeout=20).returncode == 0, "it is gone")
    finally:
        first.terminate()
        _, err = first.communicate(timeout=20)
    expect(first.returncode == 0, f"the first one ended with code {first.returncode}\n{err}")


def interrupt(case: Case) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        run = case.start("--local", "2", "--", case.tools.trainer, "--steps", "100000", "--micro-batch-ms", "5",
                         "--print-every", "1")
        case.wait_for_line(run, r"\[host\d rank\d\].*\d")
        begun = time.monotonic()
        run.send_signal(number)
        status, _, err = case.finish(run)
        expect(status == code, f"exit code {status}, not {code}\n{err}")
        expect("stopping after this step" in err, err)
        expect(time.monotonic() - begun < 10, f"took {time.monotonic() - begun:.1f} s to stop\n{err}")
        case.expect_nothing_left(2)


def time_limit(case: Case) -> None:
    """124 with nothing saved; with a checkpoint 75, and the next run continues from there."""
    limit = ["--local", "2", "--time-limit", "2s"]  # a loaded machine may not have begun by then
    long_limit = ["--local", "2", "--time-limit", "6s"]
    trainer = ["--", case.tools.trainer, "--steps", "100000", "--micro-batch-ms", "5"]
    status, _, err = case.run(*limit, *trainer)
    expect(status == 124, f"exit code {status}, not 124\n{err}")
    expect("the time limit of 2s is reached; stopping" in err, err)
    saving = ["--checkpoint-dir", str(case.folder / "checkpoints"), "--checkpoint-every", "100000"]
    status, _, err = case.run(*long_limit, *saving, *trainer)
    expect(status == 75, f"exit code {status}, not 75\n{err}")
    status, _, err = case.run(*limit, *saving, "--resume", *trainer)
    expect(status == 75 and "resuming at step" in err, f"exit code {status}\n{err}")
    case.expect_nothing_left(2)


def start_with_helpers_and_frozen_host(case: Case) -> subprocess.Popen:
    """Two hosts, one of them frozen; each rank has a child in a session of its own, as data loaders may be."""
    program = f"setsid sleep 1000 & exec {case.tools.trainer} --steps 100000 --micro-batch-ms 5 --print-every 1"
    run = case.start("--local", "2", "--fault", "lose-host@step=5:rank=1,for=ever", "--", "sh", "-c", program)
    case.wait_for_line(run, r"\[host\d rank\d\].*\d")
    deadline = time.monotonic() + LIMIT_S
    while not case.frozen():
        expect(time.monotonic() < deadline, "no host is frozen")
        time.sleep(0.02)
    expect(len(case.left_behind()) >= 9, "two launchers, controller, two agents, two ranks and their children")
    return run


def expect_nothing_after_kill(case: Case, run: subprocess.Popen, victim: int) -> None:
    os.kill(victim, signal.SIGKILL)
    case.expect_nothing_left(3)
    run.communicate()
    # The private folder goes with the next run.
    expect(len(list(case.folder.glob("paceline-run-*"))) == 1, "a private folder should be left")
    case.run("--", "true")
    expect(list(case.folder.glob("paceline-run-*")) == [], "the folder of the dead run is still there")


def killed_guard(case: Case) -> None:
    run = start_with_helpers_and_frozen_host(case)
    expect_nothing_after_kill(case, run, run.pid)


def killed_launcher(case: Case) -> None:
    run = start_with_helpers_and_frozen_host(case)
    launcher = int(Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0])
    expect_nothing_after_kill(case, run, launcher)
    expect(run.returncode == 128 + signal.SIGKILL, f"exit code {run.returncode}")


def unaware_program(case: Case) -> None:
    help_text = subprocess.run([case.tools.unaware, "--help"], capture_output=True, text=True, check=False).stdout
    flags = ["--steps", "5"]
    if "--checkpoint" in help_text:
        flags += ["--checkpoint", str(case.folder / "checkpoint")]
    status, out, err = case.run("--local", "2", "--spares", "1", "--", case.tools.unaware, *flags)
    expect(status == 0, f"exit code {status}\n{out}\n{err}")


def asked_to_end(case: Case) -> None:
    """A program without the library gets SIGTERM and time to save; what it saves is where it goes on."""
    program = [case.tools.unaware, "--steps", "200", "--step-ms", "20", "--checkpoint", str(case.folder / "checkpoint"),
               "--checkpoint-every", "1000"]
    run = case.start("--local", "2", "--", *program)
    case.wait_for_line(run, "starts at step 0")
    run.send_signal(signal.SIGTERM)
    status, out, err = case.finish(run)
    expect(status == 75, f"exit code {status}, not 75\n{out}\n{err}")
    expect("asked to end" in out and (case.folder / "checkpoint").exists(), f"nothing was saved\n{out}\n{err}")
    case.expect_nothing_left(3)
    status, out, err = case.run("--local", "2", "--", *program)
    expect(status == 0 and "starts at step 0" not in out, f"does not go on: {status}\n{out}\n{err}")


def ended_after_grace(case: Case) -> None:
    """Who does not end when asked to is ended."""
    run = case.start("--stop-grace", "1s", "--", "sh", "-c", "trap '' TERM; echo here; while :; do sleep 0.1; done")
    case.wait_for_line(run, "here")
    begun = time.monotonic()
    run.send_signal(signal.SIGTERM)
    status, out, err = case.finish(run)
    expect(status == 143, f"exit code {status}, not 143\n{out}\n{err}")
    expect(1 <= time.monotonic() - begun < 5, f"took {time.monotonic() - begun:.1f} s\n{err}")


def usage_error(case: Case) -> None:
    """Another try cannot help: the first failing rank and its last line are named, and that is all."""
    script = "echo try >> tries; echo unknown flag --lr >&2; exit 64"
    status, out, err = case.run("--local", "1", "--max-restarts", "3", "--", "sh", "-c", script)
    expect(status == 64, f"exit code {status}, not 64\n{out}\n{err}")
    expect((case.folder / "tries").read_text() == "try\n", "it was tried again")
    expect("rank 0 on host0 exited with code 64" in err and "unknown flag --lr" in err, err)


def wrapped_program(case: Case) -> None:
    """The script says nothing of the library: that what it executes links it shows when its ranks are up."""
    (case.folder / "trainer").symlink_to(case.tools.trainer)
    wrapper = case.folder / "wrapper.sh"
    wrapper.write_text('#!/bin/sh\nexec "$(dirname "$0")/trainer" "$@"\n')
    wrapper.chmod(0o755)
    report = case.trained("wrapped", "--fault", "kill@step=20:rank=1", program=str(wrapper))
    expect("--runtime paceline" in report["stderr"], f"nothing is said of it\n{report['stderr']}")
    expect(report["samples"]["consumed"] == 960 and report["samples"]["duplicated"] == 0, str(report["samples"]))
    for incident in report["incidents"]:
        expect(incident["recovered_at_s"] is not None, f"not recovered: {incident}")


BAD_INPUT = (
    (["--lcoal", "2", "--", "true"], "--local"),
    (["--local", "4", "--micro-batches", "3", "--", "true"], "--micro-batches 3"),
    (["--local", "4", "--spare-mode", "cold", "--", "true"], "add --spares K"),
    (["--local", "4", "--fault", "kill@step=1:rank=4", "--", "true"], "no rank 4"),
    (["--local", "4", "--fault", "melt@step=1:rank=0", "--", "true"], "melt"),
    (["--", "/nonexistent/program"], "/nonexistent/program"),
    (["--", "no-such-program"], "no-such-program"),
    (["--", "/etc/passwd"], "not executable"),
    (["--report", "/proc/nothing", "--", "true"], "/proc/nothing"),
    (["--checkpoint-dir", "/proc/nothing", "--", "true"], "/proc/nothing"),
    (["--resume", "--", "true"], "--checkpoint-dir"),
    ([], "no program"),
)


def bad_input(case: Case) -> None:
    for arguments, named in BAD_INPUT:
        status, out, err = case.run(*arguments)
        expect(status == 64, f"{arguments}: exit code {status}, not 64\n{err}")
        expect(named in err, f"{arguments}: {err!r} does not name {named!r}")
        expect(err.count("\n") == 1 and out == "", f"{arguments}: more than one line: {err!r}")


def failing_program(case: Case) -> None:
    status, out, err = case.run("--local", "2", "--max-restarts", "1", "--", "sh", "-c", "echo gone wrong >&2; exit 7")
    expect(status == 7, f"exit code {status}, not the program's 7\n{out}\n{err}")
    expect("gone wrong" in err, err)
    case.expect_nothing_left(2)


CASES = {function.__name__: function for function in (
    completes, kill_keeps_the_bits, killed_agent, killed_controller, journal_cannot_be_written, taken_address, interrupt, time_limit, killed_guard, killed_launcher, unaware_program,
    asked_to_end, ended_after_grace, usage_error,
    wrapped_program, bad_input, failing_program, poison_stops, poison_skips)}


def arguments_of(description: str, cases: dict[str, Callable], *more: str) -> argparse.Namespace:
    """The programs under test and the case to run; `more` names further programs."""
    parser = argparse.ArgumentParser(description=description)
    for program in ("pace", "trainer", *more):
        parser.add_argument(f"--{program}", required=True)
    parser.add_argument("case", choices=sorted(cases))
    return parser.parse_args()


def run_case(tools: argparse.Namespace, cases: dict[str, Callable], kind: type[Case] = Case) -> int:
    """Runs one case in a folder of its own. It must leave no process behind. Returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="paceline-test-") as folder:
        case = kind(tools, Path(folder))
        begun = time.monotonic()
        try:
            cases[tools.case](case)
            case.expect_nothing_left(3)
        except Failure as failure:
            print(f"FAILED {tools.case}: {failure}\nrepeat: {' '.join(sys.argv)}", file=sys.stderr)
            return 1
    print(f"ok {tools.case} ({time.monotonic() - begun:.1f} s)")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_case(arguments_of(__doc__, CASES, "unaware"), CASES))
