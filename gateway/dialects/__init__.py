"""One wire language each, both ends: request to Operation, Outcome to Reply."""
