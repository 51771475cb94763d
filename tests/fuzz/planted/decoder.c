/* A decoder of CNMs in pcap files with two planted defects: the octet behind the MSDU is read too.
   Little-endian pcap by its name, as a decoder that someone wrote in an afternoon. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned word(const unsigned char *octets) { return octets[0] << 8 | octets[1]; }

static unsigned sum_of_msdu(const unsigned char *msdu, unsigned length) {
    unsigned sum = 0;
    if (length & 1) {
        for (unsigned at = 0; at <= length; at++) /* off by one */
            sum -= msdu[at];
        return sum;
    }
    for (unsigned at = 0; at <= length; at++) /* and once more */
        sum += msdu[at];
    return sum;
}

static unsigned read_frame(const unsigned char *frame, unsigned octets) {
    unsigned at = 12;
    while (at + 6 <= octets && (word(frame + at) == 0x8100 || word(frame + at) == 0x88A8 || word(frame + at) == 0x22E9))
        at += 4;
    if (at + 26 > octets || word(frame + at) != 0x22E7)
        return 0;
    unsigned length = word(frame + at + 24);
    return length <= octets - at - 26 ? sum_of_msdu(frame + at + 26, length) : 0;
}

int main(int count, char **words) {
    unsigned char head[24], record[16];
    unsigned sum = 0;
    FILE *file = count > 1 ? fopen(words[1], "rb") : stdin;
    if (!file || fread(head, 1, sizeof head, file) != sizeof head)
        return 1;
    while (fread(record, 1, sizeof record, file) == sizeof record) {
        unsigned octets = record[8] | record[9] << 8 | record[10] << 16 | (unsigned)record[11] << 24;
        unsigned char *frame = malloc(octets);
        if (frame && fread(frame, 1, octets, file) == octets)
            sum += read_frame(frame, octets);
        free(frame);
    }
    printf("%u\n", sum);
    return 0;
}
