"""Candidate Q functions and the greedy actions they imply."""
