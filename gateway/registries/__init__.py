"""Where marks, registrations and memberships live."""
