"""A network of live devices in network namespaces of this machine, with traffic from the machine's kernel."""
