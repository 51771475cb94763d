// Congestion notification tag (CN-TAG); 802.1Q clause 33; wire-formats 2
header cntag_t {
    bit<16> flow_id; // flow, local to the source station, echoed in the CNM
    bit<16> etype; // EtherType of the payload, or its length in octets if 1500 or less
}

// Congestion notification message (CNM); 802.1Q 33.4; wire-formats 3
header cnm_t {
    bit<4> version; // 0; receivers treat any version as 0 (802.1Q 33.4)
    bit<6> reserved; // ReservedV: 0 on transmission, ignored (802.1Q 33.4)
    bit<6> qntz_fb; // Quantized Feedback, the magnitude of the negative feedback (802.1Q 33.4)
    bit<64> cpid; // congestion point identifier: MAC and local number (802.1Q 33.4)
    int<16> q_offset; // cnmQOffset = Qeq − Qlen: negative when congested (the opposite of ECM's Qoff) [64 octets]
    int<16> q_delta; // cnmQDelta = Qlen − Qlen_old: positive when growing [64 octets]
    bit<3> encap_prio; // Encapsulated priority: priority of the sampled frame (802.1Q 33.4)
    bit<13> encap_reserved; // 0
    bit<48> encap_dst; // Encapsulated destination MAC: DA of the sampled frame (802.1Q 33.4)
    bit<16> msdu_length; // Encapsulated MSDU length, 0..64 [octets] (802.1Q 33.4)
    // then msdu: Encapsulated MSDU: the sampled frame from its payload EtherType or length on
}

// PAUSE; 802.3 31B; wire-formats 8
header pause_t {
    bit<16> opcode; // MAC Control function (802.3 31.4.1.3)
    bit<16> pause_time; // pause time; 0 resumes [quanta of 512 bit times] (802.3 31B.2)
}

// Priority-based flow control (PFC); 802.3 31D; wire-formats 8
header pfc_t {
    bit<16> opcode; // MAC Control function (802.3 31.4.1.3)
    bit<16> class_enable_vector; // bit n enables the time of priority n; the high octet is 0 (802.3 31D)
    bit<16> time0; // pause time of priority 0 [quanta of 512 bit times] (802.3 31D)
    bit<16> time1; // pause time of priority 1 [quanta of 512 bit times] (802.3 31D)
    bit<16> time2; // pause time of priority 2 [quanta of 512 bit times] (802.3 31D)
    bit<16> time3; // pause time of priority 3 [quanta of 512 bit times] (802.3 31D)
    bit<16> time4; // pause time of priority 4 [quanta of 512 bit times] (802.3 31D)
    bit<16> time5; // pause time of priority 5 [quanta of 512 bit times] (802.3 31D)
    bit<16> time6; // pause time of priority 6 [quanta of 512 bit times] (802.3 31D)
    bit<16> time7; // pause time of priority 7 [quanta of 512 bit times] (802.3 31D)
}

// CSIG compact tag; draft-ravi-ippm-csig
header csig_t {
    bit<3> t; // signal type (draft-ravi-ippm-csig)
    bit<1> r; // reserved (draft-ravi-ippm-csig)
    bit<5> s; // the signal's value, as the number of a bucket (draft-ravi-ippm-csig)
    bit<7> lm; // locator of the hop that set it (draft-ravi-ippm-csig)
    bit<16> etype; // EtherType of the payload, or its length in octets if 1500 or less (draft-ravi-ippm-csig)
}

// Base transport header (BTH); IBTA vol. 1, 9.2
header bth_t {
    bit<8> opcode; // transport and operation (IBTA vol. 1, 9.2.1)
    bit<1> se; // solicited event (IBTA vol. 1, 9.2.3)
    bit<1> m; // migration state (IBTA vol. 1, 9.2.4)
    bit<2> padcnt; // padding octets after the payload, to a multiple of 4 [octets] (IBTA vol. 1, 9.2.5)
    bit<4> tver; // transport header version, 0 (IBTA vol. 1, 9.2.6)
    bit<16> p_key; // partition key (IBTA vol. 1, 9.2.7)
    bit<1> fecn; // the packet met congestion (FECN) (IBTA vol. 1, A10.2.1)
    bit<1> becn; // the other direction met congestion (BECN) (IBTA vol. 1, A10.2.1)
    bit<6> reserved6; // 0 (IBTA vol. 1, 9.2)
    bit<24> qp; // destination queue pair (IBTA vol. 1, 9.2.8)
    bit<1> a; // acknowledge request (IBTA vol. 1, 9.2.9)
    bit<7> reserved7; // 0 (IBTA vol. 1, 9.2)
    bit<24> psn; // packet sequence number (IBTA vol. 1, 9.2.10)
}

// Congestion notification packet (CNP); IBTA annex A17.9.3
header cnp_t {
    bit<8> opcode; // transport and operation (IBTA vol. 1, 9.2.1)
    bit<1> se; // solicited event (IBTA vol. 1, 9.2.3)
    bit<1> m; // migration state (IBTA vol. 1, 9.2.4)
    bit<2> padcnt; // padding octets after the payload, to a multiple of 4 [octets] (IBTA vol. 1, 9.2.5)
    bit<4> tver; // transport header version, 0 (IBTA vol. 1, 9.2.6)
    bit<16> p_key; // partition key (IBTA vol. 1, 9.2.7)
    bit<1> fecn; // the packet met congestion (FECN) (IBTA vol. 1, A10.2.1)
    bit<1> becn; // the other direction met congestion (BECN) (IBTA vol. 1, A10.2.1)
    bit<6> reserved6; // 0 (IBTA vol. 1, 9.2)
    bit<24> qp; // destination queue pair (IBTA vol. 1, 9.2.8)
    bit<1> a; // acknowledge request (IBTA vol. 1, 9.2.9)
    bit<7> reserved7; // 0 (IBTA vol. 1, 9.2)
    bit<24> psn; // packet sequence number (IBTA vol. 1, 9.2.10)
    // then reserved: 0 (IBTA annex A17.9.3)
}
