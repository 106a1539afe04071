"""Compares the faults that struck with the incidents that were opened.

An incident answers a fault when it names the same slot (or, for faults of a whole host, the same host) and was
opened after the fault and before `ANSWER_LIMIT_S`. The first one counts; the report's own pairing is not used.
"""

import dataclasses

ANSWER_LIMIT_S = 30
HOST_FAULTS = ("lose-host", "kill-agent")

# kind of fault -> what its incident must be: (kind, classes of hang). None: no incident is asked for.
EXPECTED = {
    "kill": ("crash", ("none",)),
    "stop": ("hang", ("stopped",)),
    "hang": ("hang", ("never_entered", "stuck")),
    "spin": ("hang", ("never_entered", "stuck")),
    "skip": ("hang", ("mismatched",)),
    "slow": ("straggler", ("none",)),
    "lose-host": ("host_lost", ("none",)),
    "kill-agent": ("host_lost", ("none",)),
    "poison": ("crash", ("none",)),
    "kill-controller": None,
    "corrupt": ("corruption", ("none",)),
}


@dataclasses.dataclass
class Sample:
    """What one fault led to. Milliseconds count from the fault."""

    kind: str
    text: str
    detect_ms: float | None = None
    abort_ms: float | None = None  # until every survivor has said that its collective has been aborted
    recover_ms: float | None = None  # until a commit is reported after the repair
    longest_step_ms: float | None = None  # between two commits, from the fault to the next one
    unreported_turns: int = 0  # committed, and not told to the watcher
    micro_batches_redone: int | None = None
    action: str | None = None
    incident: str | None = None
    is_right: bool = True


@dataclasses.dataclass
class Verdict:
    samples: list[Sample]
    missing: list[str]  # faults that no incident answers
    wrong: list[str]  # incidents of the right rank and the wrong kind or class
    extra: list[str]  # incidents that answer no fault
    not_struck: list[str]  # faults that were asked for and never struck


def named(incident: dict) -> str:
    hang = "" if incident["hang_class"] == "none" else f" ({incident['hang_class']})"
    return (f"{incident['kind']}{hang} rank {incident['rank']} {incident['host']} at {incident['detected_at_s']:.3f} s: "
            f"{incident['evidence']}")


def is_answer(incident: dict, fault: dict) -> bool:
    if not fault["at_s"] <= incident["detected_at_s"] <= fault["at_s"] + ANSWER_LIMIT_S:
        return False
    if fault["kind"] == "corrupt":  # struck at a donor, noticed by the joiner
        return incident["kind"] == "corruption"
    if fault["kind"] in HOST_FAULTS:
        return incident["host"] == fault["host"]
    return incident["rank"] == fault["rank"]


def is_expected(incident: dict, fault: dict) -> bool:
    expected = EXPECTED[fault["kind"]]
    return expected is not None and incident["kind"] == expected[0] and incident["hang_class"] in expected[1]


def pairs_between(turns: list[dict], begin_s: float, end_s: float) -> list[tuple[dict, dict]]:
    """Turns that follow each other, of which the second ended between the two times. One under way at `end_s` is not in
    it: the next fault has its part in it."""
    return [(earlier, later) for earlier, later in zip(turns, turns[1:]) if begin_s < later["at_s"] <= end_s]


def sample_of(fault: dict, incident: dict | None, turns: list[dict], end_s: float) -> Sample:
    pairs = pairs_between(turns, fault["at_s"], end_s)
    lengths_ms = [(later["at_s"] - earlier["at_s"]) * 1e3 for earlier, later in pairs
                  if later["turn"] == earlier["turn"] + 1]
    sample = Sample(fault["kind"], fault["text"], longest_step_ms=max(lengths_ms, default=None),
                    unreported_turns=sum(int(later["turn"] - earlier["turn"]) - 1 for earlier, later in pairs))
    if incident is None:
        return sample
    sample.detect_ms = (incident["detected_at_s"] - fault["at_s"]) * 1e3
    if incident["abort_ms"] is not None:
        sample.abort_ms = incident["abort_ms"]
    if incident["recovered_at_s"] is not None:
        sample.recover_ms = (incident["recovered_at_s"] - fault["at_s"]) * 1e3
    sample.micro_batches_redone = incident["micro_batches_redone"]
    sample.action = incident["action"]
    sample.incident = named(incident)
    sample.is_right = is_expected(incident, fault)
    return sample


def judge(report: dict, turns: list[dict], asked: tuple[str, ...]) -> Verdict:
    faults = sorted(report["faults"], key=lambda fault: fault["at_s"])
    open_incidents = list(report["incidents"])
    verdict = Verdict([], [], [], [], list(asked))
    for number, fault in enumerate(faults):
        if fault["text"] in verdict.not_struck:
            verdict.not_struck.remove(fault["text"])
        answers = [incident for incident in open_incidents
                   if EXPECTED[fault["kind"]] is not None and is_answer(incident, fault)]
        # The right one if there is one: the same rank may be the victim of two faults at once.
        answers.sort(key=lambda incident: not is_expected(incident, fault))
        answer = answers[0] if answers else None
        end_s = faults[number + 1]["at_s"] if number + 1 < len(faults) else float("inf")
        sample = sample_of(fault, answer, turns, end_s)
        verdict.samples.append(sample)
        if answer is not None:
            open_incidents.remove(answer)
            if not sample.is_right:
                verdict.wrong.append(f"{fault['text']}: {sample.incident}")
        elif EXPECTED[fault["kind"]] is not None:
            verdict.missing.append(f"{fault['text']} at {fault['at_s']:.3f} s")
    verdict.extra = [named(incident) for incident in open_incidents]
    return verdict
