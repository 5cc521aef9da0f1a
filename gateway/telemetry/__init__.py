"""Subscribers of events: metrics, logs, loop lag."""
