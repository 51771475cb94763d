"""The bundled captures, and how they are made: ``MANIFEST.toml`` lists them, ``make pcaps`` makes them."""
