"""Frozen values, and nothing that does I/O or awaits: the words of the product as types."""
