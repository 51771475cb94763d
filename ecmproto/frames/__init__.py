"""Many frames: captures and interfaces, batches, columns, filters, forms to show, statistics."""
