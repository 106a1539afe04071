#!/usr/bin/env python3
"""Goal: each kind of fault ends as the incident it is, and with the bits of a calm run. Method: real processes, struck from outside.

One case: test_faults.py --pace PATH --trainer PATH CASE
"""

import subprocess

from run_test import Case, arguments_of, expect, run_case

STEPS = 120
LONG = 300


def described(report: dict) -> str:
    return f"{report['faults']}\n{report['incidents']}\n{report['stderr']}"


def survives(case: Case, fault: str, kind: str, hang_classes: tuple[str, ...] = ("none",), *flags: str) -> dict:
    """One fault, one incident of its kind, nothing else, and the calm bits."""
    calm = case.trained("calm", steps=STEPS)
    broken = case.trained("broken", "--fault", fault, *flags, steps=STEPS)
    text = described(broken)
    expect(len(broken["faults"]) == 1, f"{fault} has not struck once\n{text}")
    expect([incident["kind"] for incident in broken["incidents"]] == [kind], f"not one {kind}\n{text}")
    incident = broken["incidents"][0]
    expect(incident["hang_class"] in hang_classes, f"hang class {incident['hang_class']}, not {hang_classes}\n{text}")
    expect(incident["detect_ms"] is not None, f"not matched to its fault\n{text}")
    expect(incident["recovered_at_s"] is not None, f"not recovered\n{text}")
    expect_calm_bits(broken, calm)
    return incident


def expect_calm_bits(broken: dict, calm: dict, steps: int = STEPS) -> None:
    expect(broken["samples"] == {"consumed": 16 * steps, "duplicated": 0, "skipped": 0}, str(broken["samples"]))
    expect(broken["state_digest"] == calm["state_digest"],
           f"digests differ: {calm['state_digest']} {broken['state_digest']}\n{described(broken)}")


def corrupt(case: Case) -> None:
    """A rank is killed; its successor's first copy of the state has a bad chunk, which comes from the other donor."""
    calm = case.trained("calm", steps=STEPS)
    broken = case.trained("broken", "--fault", "kill@step=30:rank=3", "--fault", "corrupt@step=30:rank=3", steps=STEPS)
    text = described(broken)
    expect(sorted(fault["kind"] for fault in broken["faults"]) == ["corrupt", "kill"], f"not both have struck\n{text}")
    expect(sorted(incident["kind"] for incident in broken["incidents"]) == ["corruption", "crash"], text)
    incident = next(incident for incident in broken["incidents"] if incident["kind"] == "corruption")
    expect(incident["rank"] == 3 and incident["detect_ms"] is not None, f"not matched to its fault\n{text}")
    expect("did not match their checksum; taken again from" in incident["evidence"], incident["evidence"])
    expect_calm_bits(broken, calm)


def hang_in_trial(case: Case) -> None:
    """A rank is killed; its successor's program never comes out of its trial: it is ended, and the next one joins."""
    calm = case.trained("calm", steps=LONG, micro_batch_ms=20)
    broken = case.trained("broken", "--fault", "kill@step=20:rank=3", "--fault", "hang@step=20:rank=3,phase=trial",
                          steps=LONG, micro_batch_ms=20)
    text = described(broken)
    expect(sorted(fault["kind"] for fault in broken["faults"]) == ["hang", "kill"], f"not both have struck\n{text}")
    expect(sorted(incident["kind"] for incident in broken["incidents"]) == ["crash", "hang"], text)
    incident = next(incident for incident in broken["incidents"] if incident["kind"] == "hang")
    expect(incident["rank"] == 3 and "has not come out of its trial" in incident["evidence"], text)
    expect(incident["recovered_at_s"] is not None, f"the next process of its slot is no member\n{text}")
    expect_calm_bits(broken, calm, LONG)


def silent_joiner_host(case: Case) -> None:
    """A cold spare starts in a lost host's place and vanishes before its rank is a member: the next spare is taken."""
    calm = case.trained("calm", steps=LONG, micro_batch_ms=20)
    broken = case.trained("broken", "--spares", "2", "--spare-mode", "cold", "--fault",
                          "lose-host@step=20:rank=2,for=60s", "--fault", "lose-host@step=20:rank=4,phase=heal,for=60s",
                          steps=LONG, micro_batch_ms=20)
    text = described(broken)
    expect([fault["kind"] for fault in broken["faults"]] == ["lose-host"] * 2, f"not both have struck\n{text}")
    expect([incident["kind"] for incident in broken["incidents"]] == ["host_lost"] * 2, text)
    expect("none of its ranks is a member" in broken["incidents"][1]["evidence"], text)
    expect("rank 5 on host5 takes the place of rank 4 on host4" in broken["stderr"], text)
    expect_calm_bits(broken, calm, LONG)


def skip(case: Case) -> None:
    survives(case, "skip@step=30:rank=1", "hang", ("mismatched",))


def spin(case: Case) -> None:
    survives(case, "spin@step=30:rank=2", "hang", ("never_entered", "stuck"))


def hang(case: Case) -> None:
    survives(case, "hang@step=30:rank=0", "hang", ("never_entered", "stuck"))


def stop(case: Case) -> None:
    survives(case, "stop@step=30:rank=1", "hang", ("stopped",))


def lose_host(case: Case) -> None:
    """The host comes back while the job goes on: what it still has to say is refused, and its processes end."""
    survives(case, "lose-host@step=30:rank=2,for=1s", "host_lost")


def cold_spare(case: Case) -> None:
    """A host without processes takes the place of a lost one, which stands by in turn once it is back."""
    cold = ("--spares", "1", "--spare-mode", "cold")
    incident = survives(case, "lose-host@step=30:rank=2,for=1s", "host_lost", ("none",), *cold)
    expect(incident["action"] == "swap_spare", str(incident))
    for part in ("cold spare rank 4 on host4 joins them", "launch", "heal", "reckoned to be away"):
        expect(part in incident["reason"], f"no {part!r} in the reason\n{incident}")
    costs = {each["action"]: each["cost_rank_s"] for each in incident["alternatives"]}
    expect(costs["swap_spare"] < costs["shrink"], str(costs))
    report = case.report(case.folder / "broken")
    expect(report["world"]["spare_mode"] == "cold", str(report["world"]))


def slow(case: Case) -> None:
    incident = survives(case, "slow@step=40:rank=1,factor=3,for=3s", "straggler")
    expect(not incident["only_observed"], str(incident))


def recovery_mode_is_changed(case: Case) -> None:
    """`pace recovery observe` while the job runs: a slow rank is reported, with what would have been done, and left alone."""
    def recovery(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([case.tools.pace, "recovery", *arguments], env=case.environment, capture_output=True,
                              text=True, check=False, timeout=20)

    nobody = recovery("off")
    expect(nobody.returncode == 69 and "there is no run of yours" in nobody.stderr, str(nobody))
    expect(recovery("perhaps").returncode == 64, "a mode that is none")

    report = case.folder / "watched"
    run = case.start("--local", "4", "--micro-batches", "16", "--report", str(report), "--fault",
                     "slow@step=150:rank=1,factor=3,for=3s", "--", case.tools.trainer, "--steps", "260",
                     "--micro-batch-ms", "5", "--gradient-mb", "0.2", "--print-every", "1")
    case.wait_for_line(run, r"step 5 of")
    changed = recovery("observe", "--detector", "straggler")
    expect(changed.returncode == 0, str(changed))
    status, _, err = case.finish(run)
    expect(status == 0, f"exit code {status}\n{err}")
    expect("recovery mode observe for straggler" in err, err)
    read = case.report(report)
    found = [incident for incident in read["incidents"] if incident["kind"] == "straggler"]
    expect(len(found) == 1 and found[0]["only_observed"] and found[0]["rank"] == 1, f"{read['incidents']}\n{err}")
    expect({turn["epoch"] for turn in case.turns(report)} == {"1"}, "observed, and yet the work was divided anew")


EVALUATION_S = 0.6
EVALUATES = ("--evaluate-every", "30", "--evaluate-ms", str(EVALUATION_S * 1000))


def kill_in_barrier(case: Case) -> None:
    """Ranks wait in a barrier for one that evaluates: one of those that wait is killed, and at the next the awaited one."""
    calm = case.trained("calm", steps=STEPS)
    broken = case.trained("broken", "--fault", "kill@step=30:rank=2,after_us=200000", "--fault",
                          "kill@step=60:rank=0,after_us=200000", steps=STEPS, trainer=EVALUATES)
    text = described(broken)
    expect([fault["kind"] for fault in broken["faults"]] == ["kill", "kill"], f"not both have struck\n{text}")
    expect([incident["kind"] for incident in broken["incidents"]] == ["crash", "crash"], text)
    expect(all(incident["recovered_at_s"] is not None for incident in broken["incidents"]), text)
    commits = {int(turn["step"]): float(turn["at_s"]) for turn in case.turns(case.folder / "broken")}
    for fault, step in zip(broken["faults"], (30, 60), strict=True):
        expect(commits[step - 1] < fault["at_s"] < commits[step], f"{fault} did not strike in the barrier: {commits}")
    expect(commits[30] - commits[29] >= EVALUATION_S, "who was left did not wait for the one that evaluates")
    expect(commits[60] - commits[59] < EVALUATION_S, "a lost rank was waited for")
    expect_calm_bits(broken, calm)


def never_in_barrier(case: Case) -> None:
    """A rank that does not come to a barrier is found and replaced while all others wait in it, with no step open."""
    calm = case.trained("calm", steps=STEPS)
    broken = case.trained("broken", steps=STEPS,
                          trainer=("--evaluate-every", str(STEPS // 2 + 1), "--evaluate-ms", "3600000"))
    text = described(broken)
    expect([incident["kind"] for incident in broken["incidents"]] == ["hang"], f"not one hang\n{text}")
    incident = broken["incidents"][0]
    expect((incident["rank"], incident["hang_class"]) == (0, "never_entered"), text)
    expect("3 others wait for it" in incident["evidence"], incident["evidence"])
    expect(incident["recovered_at_s"] is not None, f"not recovered\n{text}")
    expect_calm_bits(broken, calm)


CASES = {function.__name__: function
         for function in (corrupt, hang_in_trial, silent_joiner_host, skip, spin, hang, stop, lose_host, cold_spare,
                           slow, recovery_mode_is_changed, kill_in_barrier, never_in_barrier)}


if __name__ == "__main__":
    raise SystemExit(run_case(arguments_of(__doc__, CASES), CASES))
