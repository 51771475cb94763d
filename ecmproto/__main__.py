"""``python -m ecmproto`` runs the ``ecmproto`` command."""

import runpy

runpy.run_module("ecmproto_cli", run_name="__main__", alter_sys=True)
