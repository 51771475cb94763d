"""HPCC (SIGCOMM 2019): a window for each flow, set by the records of every port on its path."""
