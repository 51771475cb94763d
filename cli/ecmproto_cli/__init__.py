"""The command line: it only calls; no protocol logic lives here."""
