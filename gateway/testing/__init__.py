"""Shipped test kits: contracts of the ports, faults, the explorer."""
