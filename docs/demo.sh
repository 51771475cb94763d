#!/bin/sh
# What `make demo` shows: the bundled captures dissected, a frame crafted, a capture replayed.
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
say "A capture of a hot spot through a software QCN congestion point" \
    ecmproto replay -r pcaps/hotspot.pcap.gz --cp qcn --rate 10G --seed 1 -w "$out/replayed.pcapng"
say "The first messages it sent, in the capture it wrote" \
    sh -c "ecmproto dissect -r $out/replayed.pcapng | grep -m 5 CNM"
printf '\nNext: ecmproto --help, README.md, docs/\n'
