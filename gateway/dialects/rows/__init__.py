"""The rows dialect: a subset of PostgREST's wire language, with versions as entity tags."""
