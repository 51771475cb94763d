"""Results: figures, bands and models of runs, over seeds and points, and pages of them."""
