"""Results: figures, bands and analytical models of runs, over seeds and sweep points, and result pages."""
