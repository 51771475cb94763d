"""E²CM (S002): ECM with probes that measure each flow's share of its path's queues."""
