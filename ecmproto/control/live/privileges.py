"""Real-time scheduling, and dropping root's privileges once the sockets are open."""

from __future__ import annotations

import ctypes
import errno
import os
import pwd

from ecmproto.errors import ParameterError

_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITIES = 64
"""A bound on the kernel's capabilities: its sets have 64 bits."""


def check_user(user: str) -> None:
    """Raise ParameterError for an unknown user."""
    _entry(user)


def drop_privileges(user: str) -> None:
    """Change the process to ``user`` permanently; without root's rights interfaces cannot be reopened.

    Its child processes cannot regain capabilities: its bounding set is empty, and no_new_privs is set.
    ParameterError for an unknown user, and if the process may not change its user.
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
    """Empty the bounding set."""
    for capability in range(_CAPABILITIES):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return  # the kernel has no more of them


def _prctl(option: int, value: int) -> None:
    arguments = [ctypes.c_ulong(each) for each in (value, 0, 0, 0)]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def run_in_realtime(*, behind_devices: bool = False) -> None:
    """Run this process before all ordinary ones; PermissionError without the right.

    ``behind_devices`` gives it a lower priority than processes that call this without it.
    """
    minimum = os.sched_get_priority_min(os.SCHED_RR)
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(minimum if behind_devices else minimum + 1))
