"""Coverage-guided fuzzing: atheris keeps inputs that reach new lines and mutates them (extra guided).

``targets/``      a file each: what must hold in its first lines, then a check with what it is made of
``corpus/``       for each target the inputs that reached something, the least of them, as lines of hex
``harness.py``    the process that atheris drives; what it finds is kept as any campaign keeps it
``campaign.py``   starts that process again and again, until its time is over
"""
