"""Real-time scheduling, and the change to an ordinary user after the sockets are open."""

from __future__ import annotations

import ctypes
import errno
import os
import pwd

from ecmproto.errors import ParameterError

_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITIES = 64
"""The maximum number of the kernel's capabilities, whose sets have 64 bits."""


def check_user(user: str) -> None:
    """Raise ParameterError for an unknown user."""
    _entry(user)


def drop_privileges(user: str) -> None:
    """Change the process to ``user`` permanently; without root's rights, interfaces cannot be reopened.

    Child processes cannot regain capabilities, because the bounding set is empty and no_new_privs is set.
    Raises ParameterError for an unknown user, or if the process may not change the user.
    """
    entry = _entry(user)
    try:
        _drop_capabilities()
        os.setgroups([])
        os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
        os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    except PermissionError as error:
        needed = "root, or the capabilities CAP_SETUID, CAP_SETGID and CAP_SETPCAP"
        raise ParameterError(name="user", needed=needed, got="a process without them") from error


def _entry(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise ParameterError(name="user", needed="a user of this system", got=repr(user)) from None


def _drop_capabilities() -> None:
    """Empty the bounding set of capabilities."""
    for capability in range(_CAPABILITIES):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return  # the kernel has no more capabilities


def _prctl(option: int, value: int) -> None:
    arguments = [ctypes.c_ulong(each) for each in (value, 0, 0, 0)]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def run_in_realtime(*, below_devices: bool = False) -> None:
    """Run this process in real time, before all ordinary processes.

    ``below_devices`` means a lower priority than processes that call this function without
    ``below_devices``. Raises PermissionError if the process may not use real-time scheduling.
    """
    minimum = os.sched_get_priority_min(os.SCHED_RR)
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(minimum if below_devices else minimum + 1))
