meta:
  id: cnp
  title: "Congestion notification packet (CNP)"
  license: GPL-2.0-or-later
  endian: be
  bit-endian: be
doc: "IBTA annex A17.9.3"
seq:
  - id: opcode
    doc: "transport and operation (IBTA vol. 1, 9.2.1)"
    type: u1
  - id: se
    doc: "solicited event (IBTA vol. 1, 9.2.3)"
    type: b1
  - id: m
    doc: "migration state (IBTA vol. 1, 9.2.4)"
    type: b1
  - id: padcnt
    doc: "padding octets after the payload, to a multiple of 4 [octets] (IBTA vol. 1, 9.2.5)"
    type: b2
  - id: tver
    doc: "transport header version, 0 (IBTA vol. 1, 9.2.6)"
    type: b4
  - id: p_key
    doc: "partition key (IBTA vol. 1, 9.2.7)"
    type: u2
  - id: fecn
    doc: "the packet met congestion (FECN) (IBTA vol. 1, A10.2.1)"
    type: b1
  - id: becn
    doc: "the other direction met congestion (BECN) (IBTA vol. 1, A10.2.1)"
    type: b1
  - id: reserved6
    doc: "0 (IBTA vol. 1, 9.2)"
    type: b6
  - id: qp
    doc: "destination queue pair (IBTA vol. 1, 9.2.8)"
    type: b24
  - id: a
    doc: "acknowledge request (IBTA vol. 1, 9.2.9)"
    type: b1
  - id: reserved7
    doc: "0 (IBTA vol. 1, 9.2)"
    type: b7
  - id: psn
    doc: "packet sequence number (IBTA vol. 1, 9.2.10)"
    type: b24
  - id: reserved
    doc: "0 (IBTA annex A17.9.3)"
    size: opcode * 0 - -16
