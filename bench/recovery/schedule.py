"""Faults, as text for `pace run --faults`, and seeded schedules of them."""

import dataclasses
import random
from collections.abc import Sequence

PHASES = ("compute", "reduce", "commit")
REPAIR_PHASES = ("prepare", "heal")
WARM_UP_STEPS = 40  # limits of hang detection need 16 commits, those of stragglers a few more
WIND_DOWN_STEPS = 40
MOST_FAULTS = 6  # of a wild schedule
REPLACED_S = 4  # until the process in the place of a lost one is a member: a joiner that fails is another story
WILD_WARM_UP_STEPS = 10
WILD_WIND_DOWN_STEPS = 60
WILD_STEP_S = 0.04


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of fault: how it is written, and how long it needs to be repaired before the next one strikes."""

    name: str
    settle_s: float
    options: str = ""
    is_at_phase: bool = True  # not for threads that are taken over: those must be in the program's code
    away_s: float = 0  # its host is gone for so long; others may fail meanwhile, but no second host


KINDS = {kind.name: kind for kind in (
    Kind("kill", 1.2), Kind("stop", 2), Kind("hang", 4, is_at_phase=False), Kind("spin", 4, is_at_phase=False),
    Kind("skip", 2, is_at_phase=False), Kind("slow", 7, ",factor=3,for=4s"),
    Kind("lose-host", 2.5, ",for=10s", away_s=12), Kind("kill-agent", 2.5, away_s=2.5), Kind("kill-controller", 3),
    Kind("corrupt", 3, is_at_phase=False))}


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    step: int
    rank: int | None  # None: of `corrupt`, whoever gives
    phase: str | None = None
    after_us: int = 0

    @property
    def text(self) -> str:
        rank = f":rank={self.rank}" if self.rank is not None else ""
        phase = f",phase={self.phase}" if self.phase else ""
        after = f",after_us={self.after_us}" if self.after_us else ""
        return f"{self.kind}@step={self.step}{rank}{phase}{after}{KINDS[self.kind].options}"


@dataclasses.dataclass(frozen=True)
class Schedule:
    seed: int
    steps: int
    faults: tuple[Fault, ...]

    @property
    def text(self) -> str:
        return "".join(fault.text + "\n" for fault in self.faults)


def random_fault(random_numbers: random.Random, kind: str, step: int, ranks: Sequence[int], step_s: float) -> Fault:
    """Half of the faults strike at a named phase, half at a random microsecond of the step; at one of `ranks`."""
    rank = random_numbers.choice(ranks)
    step_us = int(step_s * 1e6)
    if KINDS[kind].is_at_phase and random_numbers.random() < 0.5:
        return Fault(kind, step, rank, random_numbers.choice(PHASES), random_numbers.randrange(step_us // 50))
    after_us = random_numbers.randrange(step_us) if KINDS[kind].is_at_phase else 0
    return Fault(kind, step, rank, after_us=after_us)


def spaced(seed: int, counts: dict[str, int], ranks: int, ranks_per_host: int, step_s: float,
           steps_per_run: int) -> list[Schedule]:
    """So many faults of each kind in random order, each repaired before the next; all runs have the same length.

    A host that is away and a rank that is replaced need longer than the repair: the faults that strike meanwhile strike
    elsewhere.
    """
    random_numbers = random.Random(seed)
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    random_numbers.shuffle(kinds)
    schedules: list[Schedule] = []
    while kinds:
        schedules.append(Schedule(seed, steps_per_run,
                                  tuple(faults_of_run(random_numbers, kinds, ranks, ranks_per_host, step_s,
                                                      steps_per_run - WIND_DOWN_STEPS))))
    return schedules


def faults_of_run(random_numbers: random.Random, kinds: list[str], ranks: int, ranks_per_host: int, step_s: float,
                  last_step: int) -> list[Fault]:
    """Takes from `kinds` what fits into one run, at least one."""
    faults: list[Fault] = []
    step, away_until, away_host = WARM_UP_STEPS, 0, None
    back_at = dict.fromkeys(range(ranks), 0)
    while kinds:
        at_hand = [kind for kind in kinds if not KINDS[kind].away_s] if step < away_until else kinds
        if not at_hand:
            step = away_until
            continue
        kind = at_hand[0]
        length = round(KINDS[kind].settle_s / step_s)
        if faults and step + length > last_step:
            break
        kinds.remove(kind)
        present = [rank for rank in range(ranks)
                   if step >= back_at[rank] and (step >= away_until or rank // ranks_per_host != away_host)]
        fault = random_fault(random_numbers, kind, step + random_numbers.randrange(5), present, step_s)
        faults.append(fault)
        if kind not in ("slow", "kill-controller"):
            back_at[fault.rank] = step + round(REPLACED_S / step_s)
        if KINDS[kind].away_s:
            away_until, away_host = step + round(KINDS[kind].away_s / step_s), fault.rank // ranks_per_host
        step += length
    return faults


def wild(seed: int, kinds: tuple[str, ...], ranks: int, steps: int, must: int) -> Schedule:
    """1 to `MOST_FAULTS` faults with no regard for each other.

    What each schedule `must` hold goes by its number: a fault in each of the named phases in turn, and in every third
    schedule two at once. Faults in prepare and heal strike while an earlier fault is repaired.
    """
    random_numbers = random.Random(seed)
    phase = (*PHASES, *REPAIR_PHASES)[must % 5]
    if phase in PHASES:
        faults = [dataclasses.replace(random_fault(random_numbers, "kill", random_step(random_numbers, steps), range(ranks),
                                                   WILD_STEP_S), phase=phase)]
    else:
        faults = during_repair(random_numbers, phase, ranks, random_step(random_numbers, steps))
    needs_pair = must % 3 == 0
    count = random_numbers.randint(len(faults) + (1 if needs_pair else 0), MOST_FAULTS)
    while len(faults) < count:
        is_at_once = needs_pair or random_numbers.random() < 0.2
        step = faults[-1].step if is_at_once else random_step(random_numbers, steps)
        needs_pair = False
        kind = random_numbers.choice(kinds)
        if kind == "corrupt":  # strikes what a joiner heals from, so somebody must have to heal
            faults += [Fault("kill", step, random_numbers.randrange(ranks)), Fault("corrupt", step, None)]
        else:
            faults.append(random_fault(random_numbers, kind, step, range(ranks), WILD_STEP_S))
    return Schedule(seed, steps, tuple(sorted(faults[:MOST_FAULTS], key=lambda fault: fault.step)))


def random_step(random_numbers: random.Random, steps: int) -> int:
    return random_numbers.randrange(WILD_WARM_UP_STEPS, steps - WILD_WIND_DOWN_STEPS)


def during_repair(random_numbers: random.Random, phase: str, ranks: int, step: int) -> list[Fault]:
    """A kill, and a fault that strikes its replacement while it heals, or somebody else while all prepare."""
    victim = random_numbers.randrange(ranks)
    other = victim if phase == "heal" else (victim + random_numbers.randrange(1, ranks)) % ranks
    kind = random_numbers.choice(("kill", "stop", "lose-host", "kill-agent", "kill-controller"))
    return [Fault("kill", step, victim), Fault(kind, step, other, phase, random_numbers.randrange(2000))]
