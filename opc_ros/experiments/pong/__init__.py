"""The paper's Pong: the next point decides an episode, so reward is binary."""
