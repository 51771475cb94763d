"""The formats by name: tags, messages and the layers of frames."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ecmproto.formats.base import Layer
from ecmproto.formats.bcn import BCN, RRTTag
from ecmproto.formats.cn import CNM, CNTag
from ecmproto.formats.e2cm import BCN_TYPES, E2CM, PROBE_FWD, PROBE_REV
from ecmproto.formats.ecm import ECM, CMTag
from ecmproto.formats.experimental import UnknownMessage
from ecmproto.formats.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.fuzz.strategies.layers import layers_of


def cn_tags(**overrides: Any) -> SearchStrategy[CNTag]:
    """Return CN-TAGs (wire-formats 2)."""
    return layers_of(CNTag, **overrides)


def cnms(**overrides: Any) -> SearchStrategy[CNM]:
    """Return CNMs with an Encapsulated MSDU of 0 to 64 octets (wire-formats 3)."""
    return layers_of(CNM, **overrides)


def ecm_frames(**overrides: Any) -> SearchStrategy[ECM]:
    """Return the layer of ECM frames, with at least 24 octets of the sampled frame (wire-formats 4)."""
    return layers_of(ECM, **overrides)


def cm_tags(**overrides: Any) -> SearchStrategy[CMTag]:
    """Return CM-Tags of ECM and of E²CM (wire-formats 4)."""
    return layers_of(CMTag, **overrides)


def bcn_messages(**overrides: Any) -> SearchStrategy[BCN]:
    """Return BCN messages, normal and STOP (wire-formats 5)."""
    return layers_of(BCN, **overrides)


def rrt_tags(**overrides: Any) -> SearchStrategy[RRTTag]:
    """Return RRT tags (wire-formats 5)."""
    return layers_of(RRTTag, **overrides)


def e2cm_probes(**overrides: Any) -> SearchStrategy[E2CM]:
    """Return E²CM probes, forward and reverse, with neither feedback nor payload (wire-formats 6)."""
    probe = {"type": st.sampled_from((PROBE_FWD, PROBE_REV)), "q_off": 0, "q_delta": 0, "payload": b""}
    return layers_of(E2CM, **(probe | overrides))


def e2cm_messages(**overrides: Any) -> SearchStrategy[E2CM]:
    """Return what E²CM's congestion points send: BCN, BCN_MAX, BCN_ZERO (wire-formats 6)."""
    return layers_of(E2CM, **({"type": st.sampled_from(BCN_TYPES)} | overrides))


def rd_tags(**overrides: Any) -> SearchStrategy[RDTag]:
    """Return FECN's rate-discovery tags (wire-formats 7)."""
    return layers_of(RDTag, **overrides)


def fecn_returns(**overrides: Any) -> SearchStrategy[FECNReturn]:
    """Return the layer of FECN's returning frames (wire-formats 7)."""
    return layers_of(FECNReturn, **overrides)


def dbp_reports(**overrides: Any) -> SearchStrategy[DBPRateReport]:
    """Return the layer of DBP rate reports (wire-formats 7)."""
    return layers_of(DBPRateReport, **overrides)


@functools.cache
def messages() -> SearchStrategy[Layer]:
    """Return the layer of any message: CNM, ECM, BCN, E²CM, FECN return, DBP report, an unassigned one."""
    return st.one_of(
        cnms(), ecm_frames(), bcn_messages(), e2cm_messages(), e2cm_probes(), fecn_returns(), dbp_reports(),
        layers_of(UnknownMessage),
    )  # fmt: skip
