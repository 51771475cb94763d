/* Congestion notification of IEEE 802.1Q and CSIG, made of the declarations of ecmproto.
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define WS_BUILD_DLL
#include <ws_version.h>
#include <epan/packet.h>
#include <epan/proto.h>

static dissector_table_t ethertypes;


static int proto_cntag = -1;
static gint ett_cntag = -1;
static int hf_cntag_flow_id = -1;
static int hf_cntag_etype = -1;

static int dissect_cntag(tvbuff_t *tvb, packet_info *pinfo _U_, proto_tree *parent, void *data _U_)
{
    proto_item *item = proto_tree_add_item(parent, proto_cntag, tvb, 0, 4, ENC_NA);
    proto_tree *tree = proto_item_add_subtree(item, ett_cntag);
    proto_tree_add_item(tree, hf_cntag_flow_id, tvb, 0, 2, ENC_BIG_ENDIAN);
    proto_tree_add_item(tree, hf_cntag_etype, tvb, 2, 2, ENC_BIG_ENDIAN);
    dissector_try_uint(ethertypes, tvb_get_ntohs(tvb, 2), tvb_new_subset_remaining(tvb, 4), pinfo, parent);
    return tvb_captured_length(tvb);
}

static void register_cntag(void)
{
    static hf_register_info fields[] = {
        { &hf_cntag_flow_id, { "flow, local to the source station, echoed in the CNM", "cntag.flow_id", FT_UINT16, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_cntag_etype, { "EtherType of the payload, or its length in octets if 1500 or less", "cntag.etype", FT_UINT16, BASE_HEX, NULL, 0, NULL, HFILL } },
    };
    static gint *subtrees[] = { &ett_cntag };

    proto_cntag = proto_register_protocol("Congestion notification tag (CN-TAG)", "CNTAG", "cntag");
    proto_register_field_array(proto_cntag, fields, array_length(fields));
    proto_register_subtree_array(subtrees, array_length(subtrees));
    register_dissector("cntag", dissect_cntag, proto_cntag);
}


static int proto_cnm = -1;
static gint ett_cnm = -1;
static int hf_cnm_version = -1;
static int hf_cnm_reserved = -1;
static int hf_cnm_qntz_fb = -1;
static int hf_cnm_cpid = -1;
static int hf_cnm_q_offset = -1;
static int hf_cnm_q_delta = -1;
static int hf_cnm_encap_prio = -1;
static int hf_cnm_encap_reserved = -1;
static int hf_cnm_encap_dst = -1;
static int hf_cnm_msdu_length = -1;
static int hf_cnm_msdu = -1;

static int dissect_cnm(tvbuff_t *tvb, packet_info *pinfo _U_, proto_tree *parent, void *data _U_)
{
    proto_item *item = proto_tree_add_item(parent, proto_cnm, tvb, 0, 24, ENC_NA);
    proto_tree *tree = proto_item_add_subtree(item, ett_cnm);
    proto_tree_add_bits_item(tree, hf_cnm_version, tvb, 0, 4, ENC_BIG_ENDIAN);
    proto_tree_add_bits_item(tree, hf_cnm_reserved, tvb, 4, 6, ENC_BIG_ENDIAN);
    proto_tree_add_bits_item(tree, hf_cnm_qntz_fb, tvb, 10, 6, ENC_BIG_ENDIAN);
    proto_tree_add_item(tree, hf_cnm_cpid, tvb, 2, 8, ENC_BIG_ENDIAN);
    proto_tree_add_item(tree, hf_cnm_q_offset, tvb, 10, 2, ENC_BIG_ENDIAN);
    proto_tree_add_item(tree, hf_cnm_q_delta, tvb, 12, 2, ENC_BIG_ENDIAN);
    proto_tree_add_bits_item(tree, hf_cnm_encap_prio, tvb, 112, 3, ENC_BIG_ENDIAN);
    proto_tree_add_bits_item(tree, hf_cnm_encap_reserved, tvb, 115, 13, ENC_BIG_ENDIAN);
    proto_tree_add_item(tree, hf_cnm_encap_dst, tvb, 16, 6, ENC_BIG_ENDIAN);
    proto_tree_add_item(tree, hf_cnm_msdu_length, tvb, 22, 2, ENC_BIG_ENDIAN);
    proto_tree_add_item(tree, hf_cnm_msdu, tvb, 24, MIN(tvb_get_ntohs(tvb, 22), tvb_captured_length_remaining(tvb, 24)), ENC_NA);
    return tvb_captured_length(tvb);
}

static void register_cnm(void)
{
    static hf_register_info fields[] = {
        { &hf_cnm_version, { "0; receivers treat any version as 0", "cnm.version", FT_UINT8, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_cnm_reserved, { "ReservedV: 0 on transmission, ignored", "cnm.reserved", FT_UINT8, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_cnm_qntz_fb, { "Quantized Feedback, the magnitude of the negative feedback", "cnm.qntz_fb", FT_UINT8, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_cnm_cpid, { "congestion point identifier: MAC and local number", "cnm.cpid", FT_UINT64, BASE_HEX, NULL, 0, NULL, HFILL } },
        { &hf_cnm_q_offset, { "cnmQOffset = Qeq − Qlen: negative when congested (the opposite of ECM's Qoff) [64 octets]", "cnm.q_offset", FT_INT16, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_cnm_q_delta, { "cnmQDelta = Qlen − Qlen_old: positive when growing [64 octets]", "cnm.q_delta", FT_INT16, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_cnm_encap_prio, { "Encapsulated priority: priority of the sampled frame", "cnm.encap_prio", FT_UINT8, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_cnm_encap_reserved, { "0", "cnm.encap_reserved", FT_UINT16, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_cnm_encap_dst, { "Encapsulated destination MAC: DA of the sampled frame", "cnm.encap_dst", FT_ETHER, BASE_NONE, NULL, 0, NULL, HFILL } },
        { &hf_cnm_msdu_length, { "Encapsulated MSDU length, 0..64 [octets]", "cnm.msdu_length", FT_UINT16, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_cnm_msdu, { "Encapsulated MSDU: the sampled frame from its payload EtherType or length on", "cnm.msdu", FT_BYTES, BASE_NONE, NULL, 0, NULL, HFILL } },
    };
    static gint *subtrees[] = { &ett_cnm };

    proto_cnm = proto_register_protocol("Congestion notification message (CNM)", "CNM", "cnm");
    proto_register_field_array(proto_cnm, fields, array_length(fields));
    proto_register_subtree_array(subtrees, array_length(subtrees));
    register_dissector("cnm", dissect_cnm, proto_cnm);
}

static const value_string csig_t_names[] = { { 0, "available bandwidth" }, { 1, "available share of capacity" }, { 2, "per-hop delay" }, { 3, "queue depth" }, { 0, NULL } };
static int proto_csig = -1;
static gint ett_csig = -1;
static int hf_csig_t = -1;
static int hf_csig_r = -1;
static int hf_csig_s = -1;
static int hf_csig_lm = -1;
static int hf_csig_etype = -1;

static int dissect_csig(tvbuff_t *tvb, packet_info *pinfo _U_, proto_tree *parent, void *data _U_)
{
    proto_item *item = proto_tree_add_item(parent, proto_csig, tvb, 0, 4, ENC_NA);
    proto_tree *tree = proto_item_add_subtree(item, ett_csig);
    proto_tree_add_bits_item(tree, hf_csig_t, tvb, 0, 3, ENC_BIG_ENDIAN);
    proto_tree_add_bits_item(tree, hf_csig_r, tvb, 3, 1, ENC_BIG_ENDIAN);
    proto_tree_add_bits_item(tree, hf_csig_s, tvb, 4, 5, ENC_BIG_ENDIAN);
    proto_tree_add_bits_item(tree, hf_csig_lm, tvb, 9, 7, ENC_BIG_ENDIAN);
    proto_tree_add_item(tree, hf_csig_etype, tvb, 2, 2, ENC_BIG_ENDIAN);
    dissector_try_uint(ethertypes, tvb_get_ntohs(tvb, 2), tvb_new_subset_remaining(tvb, 4), pinfo, parent);
    return tvb_captured_length(tvb);
}

static void register_csig(void)
{
    static hf_register_info fields[] = {
        { &hf_csig_t, { "signal type", "csig.t", FT_UINT8, BASE_DEC, VALS(csig_t_names), 0, NULL, HFILL } },
        { &hf_csig_r, { "reserved", "csig.r", FT_UINT8, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_csig_s, { "the signal's value, as the number of a bucket", "csig.s", FT_UINT8, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_csig_lm, { "locator of the hop that set it", "csig.lm", FT_UINT8, BASE_DEC, NULL, 0, NULL, HFILL } },
        { &hf_csig_etype, { "EtherType of the payload, or its length in octets if 1500 or less", "csig.etype", FT_UINT16, BASE_HEX, NULL, 0, NULL, HFILL } },
    };
    static gint *subtrees[] = { &ett_csig };

    proto_csig = proto_register_protocol("CSIG compact tag", "CSIG", "csig");
    proto_register_field_array(proto_csig, fields, array_length(fields));
    proto_register_subtree_array(subtrees, array_length(subtrees));
    register_dissector("csig", dissect_csig, proto_csig);
}

static void register_protocols(void)
{
    register_cntag();
    register_cnm();
    register_csig();
}

static void register_handles(void)
{
    ethertypes = find_dissector_table("ethertype");
    dissector_add_uint("ethertype", 0x22e9, find_dissector("cntag"));
    dissector_add_uint("ethertype", 0x22e7, find_dissector("cnm"));
}

WS_DLL_PUBLIC_DEF const char plugin_version[] = "0.1";
WS_DLL_PUBLIC_DEF const int plugin_want_major = WIRESHARK_VERSION_MAJOR;
WS_DLL_PUBLIC_DEF const int plugin_want_minor = WIRESHARK_VERSION_MINOR;
WS_DLL_PUBLIC void plugin_register(void);

void plugin_register(void)
{
    static proto_plugin plugin = { register_protocols, register_handles };
    proto_register_plugin(&plugin);
}
