"""Benches: counts and ratios, side by side in one run (`make bench`)."""
