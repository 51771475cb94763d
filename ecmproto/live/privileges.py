"""What only root may: to run before others; and giving root up once the sockets are open."""

from __future__ import annotations

import os
import pwd

from ecmproto.errors import ParameterError


def become(user: str) -> None:
    """Make the process ``user``'s, for good; without root's power interfaces cannot be opened anew.

    ParameterError for a name that nobody has, PermissionError where the process may not change its user.
    """
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise ParameterError(name="user", needed="a user of this system", got=repr(user)) from None
    os.setgroups([])
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)


def hurry(*, behind_devices: bool = False) -> None:
    """Have this process run before all ordinary ones; PermissionError without the right to.

    ``behind_devices`` leaves those that hurry without it in front.
    """
    least = os.sched_get_priority_min(os.SCHED_RR)
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(least if behind_devices else least + 1))
