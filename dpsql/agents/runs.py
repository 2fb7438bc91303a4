"""Runs of agents: where their sessions come from, whatever the transport."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from dpsql.pipeline.events import Observer
from dpsql.policy.model import AgentPolicy, Policy
from dpsql.service.rights import Right, SessionLimits
from dpsql.service.session import Dataset, Session

AGENT_RIGHTS: Final = frozenset({Right.ASK, Right.SET})


class AgentRun(Protocol):
    """A run: all of its sessions pay from one account, below its analyst's."""

    @property
    def policy(self) -> Policy:
        """The policy of the dataset at present."""

    @property
    def analyst(self) -> str:
        """The account above the run's."""

    def session(self, limits: SessionLimits, observer: Observer | None = None) -> Session:
        """Open a session. Raises a ``dpsql.Error`` where the run may not have one any more."""


@dataclass(frozen=True, slots=True)
class OwnRun:
    """A run of whoever has opened the dataset; ``name`` is that of its account."""

    dataset: Dataset
    analyst: str
    name: str

    @property
    def policy(self) -> Policy:
        """The policy of the dataset."""
        return self.dataset.policy

    def session(self, limits: SessionLimits, observer: Observer | None = None) -> Session:
        """Open a session."""
        return self.dataset.session(
            self.analyst, session=self.name, observer=observer, rights=AGENT_RIGHTS, limits=limits
        )


def run_limits(limits: AgentPolicy, most: float | None = None) -> SessionLimits:
    """Return the limits of a session of a run; ``most`` is the highest price of a question."""
    given = [each for each in (limits.epsilon_per_question, most) if each is not None]
    return SessionLimits(limits.epsilon_per_run, min(given, default=None))
