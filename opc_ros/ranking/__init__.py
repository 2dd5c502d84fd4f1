"""Order candidates with uncertainty and compare the order with true success."""
