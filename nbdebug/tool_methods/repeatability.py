"""Tools that check whether results can be repeated and trusted, as methods of a Debugger."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.options import check_option_names
from nbdebug.tool_methods.tool_runner import ToolRunner

if TYPE_CHECKING:
    from nbdebug.tools.checkpoint import CheckpointCheck
    from nbdebug.tools.provenance import ProgramSnapshot, SnapshotChanges
    from nbdebug.tools.repeatable import Repeatable


class RepeatabilityMethods(ToolRunner):
    """Each tool about repeatability, run on the setup."""

    @check_option_names()
    def repeatable(self, *, steps: int = 20) -> Repeatable:
        """Check whether training can be repeated: run it twice, and name the first difference and its source.

        Both runs start from the present state, and everything is restored. Raises SetupError for a setup that cannot
        be run.

        Args:
            steps: Number of training steps of each run, up to 1000.
        """
        from nbdebug.tools.repeatable import repeatable

        return self._keep("repeatable", repeatable(self._use_setup(), steps=steps))

    @check_option_names()
    def snapshot(self, path: str | Path | None = None, *, config: Any = None, samples: int = 1000) -> ProgramSnapshot:
        """Record what this run is made of: versions, hardware, settings, git, data of both loaders, and code.

        Args:
            path: A JSON file to which the snapshot is written, too.
            config: Your configuration: a mapping, a namespace or a dataclass.
            samples: The largest number of samples of a set that are read; of a larger set, samples at equal distances.
        """
        from nbdebug.tools.provenance.state_history import StateHistory

        result = self._snapshot_now(config, samples)
        if path is not None:
            result.save(path)
        self.state_history = StateHistory(result, dict(result.state))
        return self._keep("snapshot", result, judge=False)

    def _snapshot_now(self, config: Any, samples: int) -> ProgramSnapshot:
        """Return a snapshot of the program and of the state of the setup, for the caller of a method of this class."""
        from nbdebug.tools.provenance import setup_state, take_snapshot

        setup = self._use_setup()
        loaders = {"train_loader": setup.train_loader, "val_loader": setup.val_loader}
        data = {name: loader for name, loader in loaders.items() if loader is not None and setup.has_training_data}
        result = take_snapshot(data, config, samples, sys._getframe(2))
        run = self.watched.result if self.watched is not None else None
        watched = f"{id(self.watched)}: {run.steps} steps" if run is not None else ""
        return replace(result, state=setup_state(setup), watched=watched)

    @check_option_names()
    def changes_since(
        self, before: ProgramSnapshot | str | Path, *, config: Any = None, samples: int = 1000
    ) -> SnapshotChanges:
        """Take a snapshot now, and list what differs from an earlier one, the code by cell.

        Raises SetupError for a file that is no snapshot.

        Args:
            before: The earlier snapshot, or the path of its file.
            config: Your configuration, as for the earlier one.
            samples: The largest number of samples of a set that are read, as for the earlier one.
        """
        from nbdebug.tools.provenance import ProgramSnapshot, compare_snapshots, load_snapshot

        former = before if isinstance(before, ProgramSnapshot) else load_snapshot(before)
        changes = compare_snapshots(former, self._snapshot_now(config, samples))
        if self.state_history is not None and self.state_history.starts_at(former):
            self.state_history.update(self.setup, is_watched=False)
            changes = replace(changes, hidden_parts=tuple(self.state_history.hidden_parts))
        return self._keep("changes", changes)

    @check_option_names()
    def check_checkpoint(
        self,
        path: str | Path | None = None,
        *,
        save: Callable[[str], Any] | None = None,
        load: Callable[[str], Any] | None = None,
    ) -> CheckpointCheck:
        """Check whether training resumes from a checkpoint as it would have continued, and what the checkpoint lacks.

        A file is read without running code in it. Raises SetupError if there is neither a path nor ``save``, or both;
        exceptions of ``save`` and ``load`` are raised.

        Args:
            path: A checkpoint of this setup: a file of ``torch.save()``, a safetensors file, or a folder of these.
            save: Your function ``save(path)`` instead: the setup trains some steps, saves, and is compared after
                loading.
            load: Your function ``load(path)``, which loads into the objects of this setup. By default each state that
                the file contains is loaded with ``load_state_dict()``.
        """
        from nbdebug.tools.checkpoint import check_checkpoint

        return self._keep("checkpoint", check_checkpoint(self._use_setup(), path, save=save, load=load))
