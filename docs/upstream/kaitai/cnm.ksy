meta:
  id: cnm
  title: "Congestion notification message (CNM)"
  license: GPL-2.0-or-later
  endian: be
  bit-endian: be
doc: "802.1Q 33.4; wire-formats 3"
seq:
  - id: version
    doc: "0; receivers treat any version as 0 (802.1Q 33.4)"
    type: b4
  - id: reserved
    doc: "ReservedV: 0 on transmission, ignored (802.1Q 33.4)"
    type: b6
  - id: qntz_fb
    doc: "Quantized Feedback, the magnitude of the negative feedback (802.1Q 33.4)"
    type: b6
  - id: cpid
    doc: "congestion point identifier: MAC and local number (802.1Q 33.4)"
    type: u8
  - id: q_offset
    doc: "cnmQOffset = Qeq − Qlen: negative when congested (the opposite of ECM's Qoff) [64 octets]"
    type: s2
  - id: q_delta
    doc: "cnmQDelta = Qlen − Qlen_old: positive when growing [64 octets]"
    type: s2
  - id: encap_prio
    doc: "Encapsulated priority: priority of the sampled frame (802.1Q 33.4)"
    type: b3
  - id: encap_reserved
    doc: "0"
    type: b13
  - id: encap_dst
    doc: "Encapsulated destination MAC: DA of the sampled frame (802.1Q 33.4)"
    size: 6
  - id: msdu_length
    doc: "Encapsulated MSDU length, 0..64 [octets] (802.1Q 33.4)"
    type: u2
  - id: msdu
    doc: "Encapsulated MSDU: the sampled frame from its payload EtherType or length on"
    size: msdu_length
