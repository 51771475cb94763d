"""DCQCN (Zhu et al., SIGCOMM 2015), derived from QCN, with ECN marks, CNPs and a rate per queue pair."""
