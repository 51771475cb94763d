"""What ECM, BCN and E²CM share: byte sampling, clamped feedback, AIMD on a bounded table of limiters."""
