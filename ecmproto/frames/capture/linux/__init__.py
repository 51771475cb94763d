"""Receiving and sending of frames on interfaces of a Linux host, with packet sockets (packet(7)).

VLAN tags are complete: the kernel removes a tag from each received frame, and this package restores the tag
with its EtherType. A `Batch` contains the frames, as for a file. The import of the package opens nothing.
Only the module `receiver` loads the compiler.

Forwarding with little delay::

    from ecmproto.frames.capture.linux.receiver import FrameReceiver
    from ecmproto.frames.capture.linux.sender import FrameSender

    with FrameReceiver("eth0") as receiver, FrameSender("eth1") as sender:
        select.select([receiver], [], [], 1.0)
        batch = receiver.receive()          # None without frames; never waits
        if batch is not None:               # valid until the next receive()
            done = sender.send(batch.buffer, batch.offset, batch.captured)
            # done < len(batch): the buffer is full (sender.full) or the link is down (sender.down)

Capturing with the minimum time per frame::

    from ecmproto.frames.capture.linux.reader import open_interface

    with open_interface("eth0") as reader:  # a reader like the reader of a file
        for batch in reader: ...

An interface that is down is no error, as it may come up again. `InterfaceError` is raised for a removed or
missing interface, and for a process without CAP_NET_RAW. `counts()` returns the number of frames that the
kernel dropped.
"""
