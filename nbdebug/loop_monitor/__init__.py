"""Monitoring of the user's own training loop: the order of its events and the updates of each parameter."""

from __future__ import annotations

from nbdebug.loop_monitor.monitor import LoopMonitor as LoopMonitor
from nbdebug.loop_monitor.summary import LoopSummary as LoopSummary

__all__ = ["LoopMonitor", "LoopSummary"]
