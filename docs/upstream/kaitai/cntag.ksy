meta:
  id: cntag
  title: "Congestion notification tag (CN-TAG)"
  license: GPL-2.0-or-later
  endian: be
  bit-endian: be
doc: "802.1Q clause 33; wire-formats 2"
seq:
  - id: flow_id
    doc: "flow, local to the source station, echoed in the CNM"
    type: u2
  - id: etype
    doc: "EtherType of the payload, or its length in octets if 1500 or less"
    type: u2
