"""Pairs frames with actions, watches the health of streams, labels success."""
