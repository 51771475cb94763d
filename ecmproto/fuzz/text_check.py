"""The text of whole batches beside that of the frames one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from ecmproto.capture import Batch
from ecmproto.dissect.fields import Csv
from ecmproto.dissect.form import Listing
from ecmproto.dissect.json import NdJson
from ecmproto.dissect.record import records
from ecmproto.dissect.summary import Lines
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.fuzz.column_check import ETHERNET_ONLY, INNER_NAMES, NAMES
from ecmproto.fuzz.difference import Difference

_NAMES = tuple(name for name in NAMES + INNER_NAMES if name.rpartition(".")[2] != "error")
FORMS: dict[str, Callable[[], Listing]] = {
    "lines": Lines, "ndjson": NdJson, "every field": lambda: Csv(_NAMES),
}  # fmt: skip


class TextCheck:
    """Writes a batch out both ways: each form one batch in so many."""

    name = "text"
    every = 64

    def __init__(self, ethertypes: EtherTypes = DEFAULT) -> None:
        self._ethertypes = ethertypes
        # the same forms for all batches: programs and words of earlier ones are used again
        self._forms = {name: make() for name, make in FORMS.items()}

    def __reduce__(self) -> tuple[object, ...]:
        return TextCheck, (self._ethertypes,)

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the first frame of each form that differs."""
        batch = Batch.from_frames(items)
        for name, form in self._forms.items():
            texts = form.batch(batch, ETHERNET_ONLY, ethertypes=self._ethertypes)
            at_once = b"".join(map(bytes, texts)).split(b"\n")
            fresh = FORMS[name]()
            each = records(batch, ETHERNET_ONLY, ethertypes=self._ethertypes, commented=fresh.commented)
            one_by_one = "".join(map(fresh.record, each)).encode("utf-8", errors="replace").split(b"\n")
            for row, (got, wanted) in enumerate(zip_longest(at_once, one_by_one, fillvalue=b"")):
                if got != wanted:
                    yield Difference(what=name, detail=f"{got!r}, not {wanted!r}", row=row)
                    break
