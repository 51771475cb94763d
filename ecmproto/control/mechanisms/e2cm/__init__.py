"""E²CM (S002): ECM with probes that measure the queued octets of each flow along the path of the flow."""
