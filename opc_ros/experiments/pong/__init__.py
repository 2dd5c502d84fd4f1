"""The paper's Pong: an episode is one point, so the reward is binary."""
