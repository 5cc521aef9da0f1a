"""Fencegate: a storage gateway that refuses the writes of holders which outlived their lease."""
