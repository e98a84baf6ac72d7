"""What a run leaves in its folder: ledgers, and the record of how it ended. No torch."""

from faults.ledger.ledger import Event, Ledger, LedgerError, Timeline, read

__all__ = ["Event", "Ledger", "LedgerError", "Timeline", "read"]
