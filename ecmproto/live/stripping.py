"""Tags taken off frames that leave a domain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.tags import Splice, older_cn_tags, older_tags, spliced_batch, tags_of
from ecmproto.capture.batch import Batch
from ecmproto.codec import CNTag, EtherTypes
from ecmproto.mechanisms.machine import Machine

_CN_TAG_OCTETS = 4
_NOWHERE = -1


def stripped(
    batch: Batch, machine: Machine, ethertypes: EtherTypes, *, chosen: NDArray[np.bool_] | None = None
) -> tuple[Batch, int]:
    """Return ``batch`` without the tags of ``machine``, and in how many frames there were some.

    Without ``chosen`` all frames lose theirs.  What has no tag, or not such a one, stays as it is.
    """
    if machine.tag is None or not len(batch):
        return batch, 0
    where = (batch.buffer, batch.offset, batch.captured)
    if machine.tag is CNTag:
        tags = tags_of(*where, ethertypes=ethertypes)
        octets, at = np.full(len(batch), _CN_TAG_OCTETS), tags.old_cn_at
    else:
        tags = tags_of(*where, protocol=machine.tag_protocol, ethertypes=ethertypes)
        octets, at = tags.old_octets.astype(np.int64), tags.old_at
    tagged = at != _NOWHERE
    if chosen is not None:
        tagged &= chosen
    if not tagged.any():
        return batch, 0
    if machine.tag is CNTag:
        more = older_cn_tags(*where, tags, ethertypes=ethertypes)
    else:
        more = older_tags(*where, tags, protocol=machine.tag_protocol, ethertypes=ethertypes)
    kept = tagged[more.frame]
    splice = Splice(
        at=np.full(len(batch), _NOWHERE),
        inserted=np.zeros((len(batch), 0), np.uint8),
        removed=np.where(tagged, octets, 0),
        removed_at=np.where(tagged, at, _NOWHERE),
        more=type(more)(*(column[kept] for column in more)),
    )
    return spliced_batch(batch, splice), int(tagged.sum())
