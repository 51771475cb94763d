"""The formats: one class each, the only declaration of its fields and properties."""
