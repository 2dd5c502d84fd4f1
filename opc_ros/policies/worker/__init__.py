"""Runs candidates in processes of their own, which may compute and nothing else."""
