"""``python -m ecmproto_cli``: the same as ``ecmproto``."""

from ecmproto_cli.main import main

main()
