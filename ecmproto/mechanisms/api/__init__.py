"""What a mechanism is made of: parameters, congestion points, reaction points, receivers, messages, tags."""
