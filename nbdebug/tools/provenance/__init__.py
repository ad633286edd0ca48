"""The makings of a run: versions, hardware, settings, code and data, on disk, and what differs between two runs."""

from __future__ import annotations

from nbdebug.tools.provenance.changes import SnapshotChanges as SnapshotChanges
from nbdebug.tools.provenance.changes import compare_snapshots as compare_snapshots
from nbdebug.tools.provenance.snapshot import ProgramSnapshot as ProgramSnapshot
from nbdebug.tools.provenance.snapshot import load_snapshot as load_snapshot
from nbdebug.tools.provenance.snapshot import setup_state as setup_state
from nbdebug.tools.provenance.snapshot import take_snapshot as take_snapshot

__all__ = ["ProgramSnapshot", "SnapshotChanges", "compare_snapshots", "load_snapshot", "setup_state", "take_snapshot"]
