"""Link types: what the first octet of a captured frame belongs to, by number and by name.

The numbers are those of the LINKTYPE_ registry that pcap and pcapng headers use, plus the DLT_ values for
raw IP that some platforms write unmapped.
"""

from __future__ import annotations

ETHERNET = 1
RAW_IP = 101
LINUX_SLL = 113
LINUX_SLL2 = 276
IPV4 = 228
IPV6 = 229

RAW_IP_TYPES = frozenset({12, 14, RAW_IP, IPV4, IPV6})
"""Frames that start with an IP header; 12 and 14 are DLT_RAW of BSD systems."""

COOKED_TYPES = frozenset({LINUX_SLL, LINUX_SLL2})
"""Frames with Linux's cooked header in place of the link layer's own."""

_NAMES = {
    0: "NULL",
    1: "ETHERNET",
    3: "AX25",
    6: "TOKEN_RING",
    7: "ARCNET",
    8: "SLIP",
    9: "PPP",
    10: "FDDI",
    12: "RAW_IP (DLT 12)",
    14: "RAW_IP (DLT 14)",
    50: "PPP_HDLC",
    51: "PPP_ETHER",
    99: "SYMANTEC_FIREWALL",
    100: "ATM_RFC1483",
    101: "RAW_IP",
    104: "C_HDLC",
    105: "IEEE802_11",
    107: "FRELAY",
    108: "LOOP",
    113: "LINUX_SLL",
    114: "LTALK",
    117: "PFLOG",
    119: "IEEE802_11_PRISM",
    122: "IP_OVER_FC",
    127: "IEEE802_11_RADIOTAP",
    132: "JUNIPER_GGSN",
    138: "APPLE_IP_OVER_IEEE1394",
    143: "DOCSIS",
    147: "USER0",
    148: "USER1",
    149: "USER2",
    150: "USER3",
    162: "USER15",
    163: "IEEE802_11_AVS",
    182: "MFR",
    187: "BLUETOOTH_HCI_H4",
    189: "USB_LINUX",
    192: "PPI",
    195: "IEEE802_15_4_WITHFCS",
    201: "BLUETOOTH_HCI_H4_WITH_PHDR",
    204: "PPP_WITH_DIR",
    220: "USB_LINUX_MMAPPED",
    224: "FC_2",
    225: "FC_2_WITH_FRAME_DELIMS",
    226: "IPNET",
    227: "CAN_SOCKETCAN",
    228: "IPV4",
    229: "IPV6",
    231: "DBUS",
    239: "NFLOG",
    240: "NETANALYZER",
    247: "INFINIBAND",
    248: "SCTP",
    249: "USBPCAP",
    252: "WIRESHARK_UPPER_PDU",
    253: "NETLINK",
    254: "BLUETOOTH_LINUX_MONITOR",
    274: "ETHERNET_MPACKET",
    276: "LINUX_SLL2",
    279: "EBHSCR",
    281: "DSA_TAG_BRCM",
    282: "DSA_TAG_BRCM_PREPEND",
    283: "IEEE802_15_4_TAP",
    284: "DSA_TAG_DSA",
    285: "DSA_TAG_EDSA",
}

# Frames of these links may hold whole bus transfers; libpcap allows them 128 MiB.
_LARGE_FRAME_TYPES = frozenset({231, 249, 279})


def linktype_name(linktype: int) -> str:
    """Return the registry's name of ``linktype``, or ``LINKTYPE_<number>`` where it is not in the table."""
    return _NAMES.get(linktype, f"LINKTYPE_{linktype}")


def largest_frame_octets(linktype: int) -> int:
    """Return the captured length above which a pcap record of ``linktype`` is not believed.

    A header whose snaplen says more is believed instead; the bounds are libpcap's.
    """
    return 128 << 20 if linktype in _LARGE_FRAME_TYPES else 256 << 10
