"""A closed loop of BCN's machines through the protocol alone, as text: the same compiled and plain."""

from __future__ import annotations

from tests.mechanisms.aimd.driver import trace


def run() -> list[str]:
    return trace(
        "bcn",
        cp={"fixed_octets": 10_000, "qsc_octets": 60_000, "qst_octets": 65_000},
        rp={"limiters": 1},
    )


if __name__ == "__main__":
    print("\n".join(run()))
