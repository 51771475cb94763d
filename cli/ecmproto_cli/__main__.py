"""``python -m ecmproto_cli``, equivalent to ``ecmproto``."""

from ecmproto_cli.main import main

main()
