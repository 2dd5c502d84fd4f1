"""Off-policy classification scores, baselines and their uncertainty."""
