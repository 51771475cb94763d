"""Frames from and to the interfaces of a Linux machine, by packet sockets (packet(7)).

VLAN tags are complete: the one that the kernel removes from each received frame is restored, with its own
EtherType.  Frames are in a `Batch`, as those read from files.  Importing the package opens nothing; each
name below comes from its own module, and only `receiver` loads the compiler.

Forwarding, with little delay::

    from ecmproto.frames.capture.linux.receiver import FrameReceiver
    from ecmproto.frames.capture.linux.sender import FrameSender

    with FrameReceiver("eth0") as receiver, FrameSender("eth1") as sender:
        select.select([receiver], [], [], 1.0)
        batch = receiver.receive()          # None: nothing there; never waits
        if batch is not None:               # its arrays are valid until the next receive()
            done = sender.send(batch.buffer, batch.offset, batch.captured)
            # done < len(batch): no room (sender.full grew) or the link is down (sender.down grew)

Capturing, with the least time a frame::

    from ecmproto.frames.capture.linux.reader import open_interface

    with open_interface("eth0") as reader:  # iterates and ends like a reader of a file
        for batch in reader: ...

An interface that goes down is waited for; a removed or missing one raises `InterfaceError`, as does a process
without CAP_NET_RAW.  The kernel's drops are counted (`counts()`).
"""
