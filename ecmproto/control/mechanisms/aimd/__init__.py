"""The common parts of ECM, BCN and E²CM: byte sampling, clamped feedback, AIMD on a table of limiters."""
