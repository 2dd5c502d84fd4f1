"""Behaviour policies that need nothing but an arm and a camera: how a lab records its first validation set."""
