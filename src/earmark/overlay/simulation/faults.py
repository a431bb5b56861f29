"""What goes wrong on the links and in the brokers of a simulated network, drawn from a seed.

    delay, jitter        a message takes delay ± jitter on a link, so that links overtake each other
    loss, duplication    of frames, each with this probability
    Cut                  a link carries nothing for a while; its ends are told, or it is silent
    Crash                a broker loses all but its clients' subscriptions, and starts again after a while

A network without loss, duplication, cuts and crashes has perfect links: each has one delay, drawn from delay ± jitter,
and messages go to brokers directly. Otherwise every link is a pair of `earmark.overlay.link.Link`, every frame draws
its own delay, and frames overtake each other on one link too.

Cuts and crashes are at times of a phase of the plan, and end with it at the latest: a phase comes to rest only when all
links and brokers are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from earmark.errors import EarmarkError
from earmark.overlay.simulation.plan import Plan

SECOND = 1_000_000
"""In microseconds."""
LONGEST = 3_600.0


class Cut(NamedTuple):
    """A link that carries nothing from `at` until `until`, microseconds of a phase."""

    phase: int
    at: int
    until: int
    edge: int
    is_silent: bool


class Crash(NamedTuple):
    """A broker that is not there from `at` until `until`, microseconds of a phase."""

    phase: int
    at: int
    until: int
    broker: int


@dataclass(frozen=True)
class Faults:
    """How links behave, and what breaks when. Times are in seconds."""

    delay: float = 0.010
    jitter: float = 0.0
    loss: float = 0.0
    duplication: float = 0.0
    cuts: tuple[Cut, ...] = ()
    crashes: tuple[Crash, ...] = ()
    queue: int = 1 << 20
    """Messages that a link keeps for its peer while it is cut; more reset it. All that a broker wants must fit."""

    def __post_init__(self) -> None:
        if not 1e-6 <= self.delay <= LONGEST or not 0 <= self.jitter < self.delay:
            raise EarmarkError(
                f"expected a delay from 1 microsecond to an hour and a jitter below it, got {self.delay} s and "
                f"{self.jitter} s"
            )
        for name, share in (("loss", self.loss), ("duplication", self.duplication)):
            if not 0 <= share <= 0.9:
                raise EarmarkError(f"expected a probability of {name} from 0 to 0.9, got {share}")

    @property
    def is_perfect(self) -> bool:
        """Whether links need no resending."""
        return not (self.loss or self.duplication or self.cuts or self.crashes)

    def drawn_delay(self, random: Random) -> int:
        """Return the microseconds that something takes on a link."""
        return max(1, round(random.uniform(self.delay - self.jitter, self.delay + self.jitter) * SECOND))


def drawn_faults(
    plan: Plan, *, cuts: int = 0, crashes: int = 0, longest: float = 1.0, seed: int = 1, **links: float
) -> Faults:
    """Draw cuts and crashes, each of at most `longest` seconds, over the times of all requests; `links` are fields."""
    if not 0 <= cuts <= 100_000 or not 0 <= crashes <= 100_000:
        raise EarmarkError(f"expected 0 to 100,000 cuts and crashes, got {cuts:,} and {crashes:,}")
    if not 0 < longest <= LONGEST:
        raise EarmarkError(f"expected a longest cut of more than 0 and at most {LONGEST:,.0f} seconds, got {longest}")
    if cuts and not plan.topology.edges:
        raise EarmarkError("expected a network of several brokers to cut, got one broker")
    random = Random(f"{seed}/faults")
    extents = [phase.requests[-1].at + SECOND // 10 if phase.requests else 0 for phase in plan.phases]

    def when() -> tuple[int, int, int]:
        phase = random.choices(range(len(extents)), extents)[0]
        at = random.randrange(extents[phase])
        return phase, at, at + max(1, round(random.uniform(0.1, 1.0) * longest * SECOND))

    drawn_cuts = [Cut(*when(), random.randrange(len(plan.topology.edges)), random.random() < 0.5) for _ in range(cuts)]
    drawn_crashes = [Crash(*when(), random.randrange(len(plan.topology.brokers))) for _ in range(crashes)]
    return Faults(cuts=tuple(sorted(drawn_cuts)), crashes=tuple(sorted(drawn_crashes)), **links)  # type: ignore[arg-type]
