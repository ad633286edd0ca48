"""Makes ``python -m nbdebug`` the command line."""

from nbdebug.cli import main

raise SystemExit(main())
