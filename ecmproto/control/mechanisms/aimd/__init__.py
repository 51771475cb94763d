"""Code that ECM, BCN and E²CM share: byte sampling, clamped feedback, and AIMD on a table of limiters."""
