meta:
  id: pause
  title: "PAUSE"
  license: GPL-2.0-or-later
  endian: be
  bit-endian: be
doc: "802.3 31B; wire-formats 8"
seq:
  - id: opcode
    doc: "MAC Control function (802.3 31.4.1.3)"
    type: u2
  - id: pause_time
    doc: "pause time; 0 resumes [quanta of 512 bit times] (802.3 31B.2)"
    type: u2
