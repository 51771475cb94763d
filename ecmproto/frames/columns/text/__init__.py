"""Whole batches as text: each output form's text of a frame, written by compiled kernels.

A form gives, for each sequence of layers (`pieces.Path`), the pieces of a frame's text: words as they are,
numbers and octets of the frame, and `Word`s, which a Python function says of few values and which are kept.
A `renderer.Renderer` writes all frames of a batch by these programs, and leaves to the form's one-frame text
those that have none.

>>> def line(path: Path) -> list[Piece] | None:
...     if path.layers[:2] != (Ethernet, VLAN):
...         return None  # told one by one
...     vlan = Decimal(path.number(1, "id"))
...     dei = When(path.number(1, "dei"), 1, 1, [" dei"])
...     rate = Word(rate_text, (path.number(2, "rate"),))
...     return [Hex(path.stretch(0, "src"), ":"), " vlan ", vlan, dei, " ", rate, "\\n"]
>>> renderer = Renderer(line, sampled=False)
>>> for text in renderer.batch(batch, one_by_one, interfaces=reader.interfaces, origin_ns=first_ns):
...     out.write(text)

`Path.sampled` is the path of the frame that a congestion message shows, where the renderer is told
``sampled=True``; its numbers and stretches are asked for in the same way.  Numbers of the record (its time,
its length) are `RecordNumber`s; how many octets a stretch has is ``Size(stretch)``.  A `Word`'s function is
called for its values where a `When` around it does not hold, too.
"""
