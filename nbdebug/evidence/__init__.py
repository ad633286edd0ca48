"""What is known of a set-up: a closed list of names, each measured when a rule first asks for it."""

from nbdebug.evidence.ledger import Evidence as Evidence
from nbdebug.evidence.ledger import known as known
from nbdebug.evidence.ledger import measurement as measurement

__all__ = ["Evidence", "known", "measurement"]
