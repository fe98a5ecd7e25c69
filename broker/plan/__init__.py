"""Plans: how transformations are answered. What they need of a message is in `broker/runtime`."""
