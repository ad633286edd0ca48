"""The folder of a run: its growing record, and its findings once it has ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdebug.atomic_files import write_atomically
from nbdebug.exceptions import SetupError
from nbdebug.serialization.schema import to_json


@dataclass
class RunFolder:
    """A folder with the files ``record.nbd`` and ``findings.json``."""

    path: Path

    @property
    def record(self) -> Path:
        """The path of the record."""
        return self.path / "record.nbd"

    @property
    def findings(self) -> Path:
        """The path of the findings."""
        return self.path / "findings.json"

    def prepare(self) -> None:
        """Create the folder, and remove the files of an earlier run; raises SetupError if that fails."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.record.unlink(missing_ok=True)
            self.findings.unlink(missing_ok=True)
        except OSError as error:
            raise SetupError(f"record is {str(self.path)!r}; expected a folder ({error}). Pass another path.") from None

    def exists(self) -> bool:
        """Check whether there is such a folder."""
        return self.path.is_dir()

    def fetch(self) -> None:
        """Download what is new, where the folder is on another machine."""

    def close(self) -> None:
        """Upload what is left of the record, where the folder is on another machine."""

    def write_findings(self, content: dict[str, Any]) -> None:
        """Write a document of findings; raises OSError if that fails."""
        write_atomically(self.findings, f"{to_json(content, 1)}\n".encode())

    def read_findings(self) -> dict[str, Any] | None:
        """Return the document of findings; None before the run has ended."""
        try:
            content: dict[str, Any] = json.loads(self.findings.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise SetupError(f"{self.findings} cannot be read ({error}); expected findings. Run it again.") from None
        return content
