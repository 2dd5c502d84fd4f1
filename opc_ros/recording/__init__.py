"""Pair frames with actions, watch stream health, label success."""
