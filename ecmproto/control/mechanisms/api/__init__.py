"""The parts of a mechanism: parameters, congestion points, reaction points, receivers, messages, tags."""
