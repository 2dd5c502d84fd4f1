"""The validation store of recorded grasp episodes."""
