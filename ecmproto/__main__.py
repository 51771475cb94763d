"""``python -m ecmproto``: the same as ``ecmproto``, by the command line installed beside this package."""

import runpy

runpy.run_module("ecmproto_cli", run_name="__main__", alter_sys=True)
