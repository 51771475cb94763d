#!/bin/sh
# What `make demo` shows: the bundled captures dissected, a frame crafted, captures replayed and counted.
# Everything it writes goes to a temporary folder.
set -eu
export PATH="$PWD/${BIN:-.venv/bin}:$PATH"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

say() {
    printf '\n\033[1m%s\033[0m\n' "$1"
    shift
    printf '\033[2m$ %s\033[0m\n' "$*"
    "$@"
}

say "One frame of every congestion management protocol, a line each" \
    ecmproto dissect -r pcaps/mixed.pcap
say "The congestion notification message, field by field and octet by octet" \
    ecmproto dissect -r pcaps/qcn_cp.pcapng -c 1 -V -x
say "A message of your own" \
    ecmproto craft cnm qntz_fb=40 flow_id=7 --vlan 5 --prio 3
say "A capture of a hot spot through a software QCN congestion point (compiled at first: some 10 s)" \
    ecmproto replay -r pcaps/hotspot.pcap.gz --cp qcn --seed 1 -w "$out/replayed.pcapng"
say "The first messages it sent, in the capture it wrote" \
    ecmproto dissect -r "$out/replayed.pcapng" -c 2200 -Y cnm
say "What is in that capture, in numbers (compiled at first: some 10 s)" \
    ecmproto stats -r "$out/replayed.pcapng" -Y "cnm"
say "Four 10 Gb/s sources into one port, with QCN's reaction points (compiled at first: some 30 s)" \
    ecmproto replay -r pcaps/incast.pcap.gz --cp qcn --rp qcn --seed 1
printf '\nNext: ecmproto --help, README.md, docs/\n'
