"""Coverage-guided fuzzing: atheris stores and mutates inputs that reach new lines (extra ``guided``).

``targets.py``    the targets with their invariants, checks and mutators
``corpus/``       the reduced inputs of each target in hexadecimal, one per line
``harness.py``    the atheris process, which stores findings in the campaign folder
``campaign.py``   a campaign, which restarts the atheris process until the time is over
"""
