"""DCQCN (Zhu et al., SIGCOMM 2015), derived from QCN: ECN marks, CNPs, and a rate per queue pair."""
