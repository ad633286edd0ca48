"""Entry point of ``python -m nbdebug``."""

from __future__ import annotations

from nbdebug.cli import main

raise SystemExit(main())
