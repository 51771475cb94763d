meta:
  id: pfc
  title: "Priority-based flow control (PFC)"
  license: GPL-2.0-or-later
  endian: be
  bit-endian: be
doc: "802.3 31D; wire-formats 8"
seq:
  - id: opcode
    doc: "MAC Control function (802.3 31.4.1.3)"
    type: u2
  - id: class_enable_vector
    doc: "bit n enables the time of priority n; the high octet is 0 (802.3 31D)"
    type: u2
  - id: time0
    doc: "pause time of priority 0 [quanta of 512 bit times] (802.3 31D)"
    type: u2
  - id: time1
    doc: "pause time of priority 1 [quanta of 512 bit times] (802.3 31D)"
    type: u2
  - id: time2
    doc: "pause time of priority 2 [quanta of 512 bit times] (802.3 31D)"
    type: u2
  - id: time3
    doc: "pause time of priority 3 [quanta of 512 bit times] (802.3 31D)"
    type: u2
  - id: time4
    doc: "pause time of priority 4 [quanta of 512 bit times] (802.3 31D)"
    type: u2
  - id: time5
    doc: "pause time of priority 5 [quanta of 512 bit times] (802.3 31D)"
    type: u2
  - id: time6
    doc: "pause time of priority 6 [quanta of 512 bit times] (802.3 31D)"
    type: u2
  - id: time7
    doc: "pause time of priority 7 [quanta of 512 bit times] (802.3 31D)"
    type: u2
