"""A network of live devices in namespaces of this machine, under the traffic of its own kernel."""
