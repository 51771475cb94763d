"""HPCC (SIGCOMM 2019): each flow has a window, which depends on the records of all ports on the path."""
