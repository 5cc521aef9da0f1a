"""The PostgreSQL store: rows whose fence is checked in the transaction that writes."""
