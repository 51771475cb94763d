"""The laboratory: networks of hosts and switches in virtual time, on the machines and ports of the engine."""
