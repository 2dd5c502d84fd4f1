"""Notifying people that something is waiting for them, or that an arm has been held."""
