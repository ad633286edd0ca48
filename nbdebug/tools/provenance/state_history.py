"""The training state since a snapshot, and the parts of it that changed while no run was watched."""

from __future__ import annotations

from dataclasses import dataclass, field

from nbdebug.setup import Setup
from nbdebug.tools.provenance.snapshot import ProgramSnapshot, setup_state


@dataclass
class StateHistory:
    """The hashes of the state when it was last known, from a snapshot on; ``hidden_parts`` is an ordered set."""

    snapshot: ProgramSnapshot
    state: dict[str, str]
    hidden_parts: dict[str, None] = field(default_factory=dict)

    def starts_at(self, snapshot: ProgramSnapshot) -> bool:
        """Check whether this is the history since a snapshot, which may have been read from its file."""
        return (snapshot.taken, snapshot.state) == (self.snapshot.taken, self.snapshot.state)

    def update(self, setup: Setup, *, is_watched: bool) -> None:
        """Read the state again; what has changed is hidden, unless a watched run has just ended."""
        former, self.state = self.state, setup_state(setup)
        if not is_watched:
            names = dict.fromkeys([*former, *self.state])
            self.hidden_parts |= dict.fromkeys(name for name in names if former.get(name) != self.state.get(name))
