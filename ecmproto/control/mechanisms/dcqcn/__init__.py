"""DCQCN (Zhu et al., SIGCOMM 2015): ECN marks, CNPs, and a rate per queue pair; QCN's heir."""
