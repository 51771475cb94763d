"""The standing texts of a report: how mechanisms work, how to read a figure, what the words mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ecmproto.report.figures import Kind

MECHANISMS: Mapping[str, str] = {
    "qcn": (
        "The congestion point samples arriving frames and tells the source of a sampled frame how "
        "badly the queue is off its set point; the source slows down, and recovers by itself."
    ),
    "ecm": (
        "The congestion point samples arriving frames and sends their sources both increases and "
        "decreases, from how far the queue is off its set point and how fast it changes."
    ),
    "bcn": (
        "The congestion point samples arriving frames and sends their sources increases and "
        "decreases, and stops them for a moment when the queue is very long."
    ),
    "e2cm": (
        "As ECM, and in addition sources send probes that the receivers turn round, from which each "
        "source learns the rate that is fair."
    ),
    "fecn": (
        "Sources send a tag along with their frames in which each congestion point on the way "
        "writes the rate it has room for; receivers send the tag back."
    ),
    "dbp": (
        "Receivers keep sending each of their sources a report, in which every congestion point on "
        "its way lowers the rate to what it has room for; the sources' own frames carry nothing."
    ),
    "pfc": (
        "A port whose queue grows too long tells its neighbours to stop sending one priority, until "
        "the queue is shorter again; nobody is told which flow is to blame."
    ),
    "pause": (
        "A port whose queue grows too long tells its neighbours to stop sending altogether, until "
        "the queue is shorter again."
    ),
    "none": (
        "Nobody tells the sources anything: the queue grows until the buffer is full, and then "
        "frames are lost. The others are compared with this."
    ),
}
"""How each mechanism works, in a sentence for who does not know it."""

READING: Mapping[Kind, str] = {
    "queue": (
        "How many octets waited at the port. The line is the mean of each short span of time, the "
        "shaded area reaches up to the longest queue in it. A good queue is short and stays near "
        "its set point; at the end of the buffer frames are lost. Each panel has a scale of its own; "
        "where a few peaks go far beyond the rest, triangles at the upper end mark them."
    ),
    "losses": (
        "When frames were lost because the buffer was full, and when PAUSE or PFC stopped senders. The "
        "higher a mark, the more was lost, or the greater the part of the time in which at least one "
        "sender stood still; the figure at the right is the sum. In an open loop nobody obeys: there it is "
        "the time for which the port asked for it."
    ),
    "delivered": (
        "What left the port, flow by flow; every flow has its own marker. Lines that lie close "
        "together mean that the flows share the port fairly."
    ),
    "sent": (
        "What the sources sent towards the port. A dotted line is the limit that feedback has set "
        "the source; where there is none, the source sends as it pleases."
    ),
    "feedback": (
        "What the congestion point computed at each sample. Below zero it asks for less, above "
        "zero the port has room; an advertised rate is drawn as it is. Triangles mark values beyond the "
        "scale."
    ),
    "messages": (
        "Each mark is a message that told this flow's source to change its rate. The higher the "
        "mark, the stronger the request; the figure at the right counts them."
    ),
}
"""How to read each kind of figure."""

COMPARING: Mapping[Kind, str] = {
    "feedback": " Mechanisms measure different things, on scales of their own: compare the shapes, not the "
    "heights.",
}
"""What else is to be known where a figure compares runs."""

GLOSSARY: Sequence[tuple[str, str]] = (
    ("Congestion point", "the queue at a switch's output port where frames wait for the line"),
    ("Reaction point", "the part of a sender that limits the rate of a flow when feedback asks for it"),
    ("Set point", "the queue length that a mechanism steers to"),
    ("Buffer", "how many octets the port can hold; frames that arrive when it is full are lost"),
    ("Feedback", "what the congestion point tells a source: how far off the queue is, or a rate"),
    ("Open and closed loop", "in an open loop the sources ignore feedback, in a closed loop they obey it"),
    (
        "Fairness",
        "Jain's index of the rates of all flows that asked for something in the second half: 1 when all are "
        "equal, 1/n when one of n has it all",
    ),
    (
        "Paused",
        "a priority of a sender stands still while PAUSE or PFC stops it: the time in which at least "
        "one did, and the sum over all senders and the priorities that they use",
    ),
    ("kB, Gb/s", "1,000 octets, and 1,000,000,000 bits a second"),
)
"""What the words of a report mean."""
