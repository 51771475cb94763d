meta:
  id: csig
  title: "CSIG compact tag"
  license: GPL-2.0-or-later
  endian: be
  bit-endian: be
doc: "draft-ravi-ippm-csig"
seq:
  - id: t
    doc: "signal type (draft-ravi-ippm-csig)"
    type: b3
  - id: r
    doc: "reserved (draft-ravi-ippm-csig)"
    type: b1
  - id: s
    doc: "the signal's value, as the number of a bucket (draft-ravi-ippm-csig)"
    type: b5
  - id: lm
    doc: "locator of the hop that set it (draft-ravi-ippm-csig)"
    type: b7
  - id: etype
    doc: "EtherType of the payload, or its length in octets if 1500 or less (draft-ravi-ippm-csig)"
    type: u2
