"""No control at all: the baseline that every mechanism is compared with."""
