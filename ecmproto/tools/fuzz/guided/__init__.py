"""Coverage-guided fuzzing: atheris keeps inputs that reach new lines and mutates them (extra guided).

``targets/``      a file each: its invariants in its first lines, then a check and its parts ``corpus/``
for each target the reduced inputs that reached something, as lines of hex ``harness.py``    the process that
atheris drives; it stores findings like any campaign ``campaign.py``   starts that process again and again,
until its time is over
"""
