"""Behaviour policies that need only an arm and a camera, for recording a lab's first validation set."""
