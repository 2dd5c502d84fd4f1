"""Telling people that something waits for them, or that an arm holds."""
