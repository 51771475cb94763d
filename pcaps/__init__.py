"""The bundled captures. ``MANIFEST.toml`` lists the captures, and ``make pcaps`` creates the captures."""
