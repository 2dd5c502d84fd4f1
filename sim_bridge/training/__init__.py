"""Trains candidate Q functions off-policy and measures their true success in the twin."""
