"""Record grasp episodes, score candidate policies offline, and let only the best onto robots."""
