"""Candidates think in processes of their own, which can do nothing but think."""
