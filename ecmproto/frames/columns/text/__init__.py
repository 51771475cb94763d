"""Whole batches as text in any output form, written by compiled kernels.

A form maps each sequence of layers (`pieces.Path`) to the pieces of a frame's text: literal text, numbers and
octets of the frame, and `Word`s, which are cached results of a Python function. A `renderer.Renderer`
compiles the pieces and writes all frames of a batch. The form writes frames without a program one by one.

>>> def line(path: Path) -> list[Piece] | None:
...     if path.layers[:2] != (Ethernet, VLAN):
...         return None  # written one by one
...     vlan = Decimal(path.number(1, "id"))
...     dei = When(path.number(1, "dei"), 1, 1, [" dei"])
...     rate = Word(rate_text, (path.number(2, "rate"),))
...     return [Hex(path.span(0, "src"), ":"), " vlan ", vlan, dei, " ", rate, "\\n"]
>>> renderer = Renderer(line, sampled=False)
>>> for text in renderer.batch(batch, one_by_one, interfaces=reader.interfaces, origin_ns=first_ns):
...     out.write(text)

With ``sampled=True``, `Path.sampled` is the path of the frame quoted by a congestion message. Numbers and
octets of the quoted frame are used in the same way. Numbers of the record, such as the time and the length,
are `RecordNumber`s. ``Size(span)`` is the number of octets of a span. The function of a `Word` is called even
if the condition of an enclosing `When` is false.
"""
