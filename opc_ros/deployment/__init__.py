"""Decide which candidate may run on which robot, and prove it."""
