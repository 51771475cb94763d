"""Laboratory: networks of hosts and switches in virtual time, with the engine's state machines and ports."""
