"""Class files that no compiler of today writes."""
import struct


def old_constructor(name, version):
    """public class NAME { public NAME() { try { super(); } catch (any) { throw } } }: the handler reaches over the call of super()."""
    constants = []

    def add(tag, content):
        constants.append(struct.pack(">B", tag) + content)
        return len(constants)

    def utf8(text):
        return add(1, struct.pack(">H", len(text)) + text.encode())

    def class_of(text):
        return add(7, struct.pack(">H", utf8(text)))

    this, parent = class_of(name), class_of("java/lang/Object")
    init, nothing, code_name = utf8("<init>"), utf8("()V"), utf8("Code")
    of_parent = add(10, struct.pack(">HH", parent, add(12, struct.pack(">HH", init, nothing))))
    code = struct.pack(">BBHBB", 0x2A, 0xB7, of_parent, 0xB1, 0xBF)  # aload_0, invokespecial, return; athrow
    handler = struct.pack(">HHHH", 0, 5, 5, 0)
    content = struct.pack(">HHI", 1, 1, len(code)) + code + struct.pack(">H", 1) + handler + struct.pack(">H", 0)
    method = struct.pack(">HHHH", 1, init, nothing, 1) + struct.pack(">HI", code_name, len(content)) + content
    return (struct.pack(">IHHH", 0xCAFEBABE, 0, version, len(constants) + 1) + b"".join(constants) +
            struct.pack(">HHHHHH", 0x21, this, parent, 0, 0, 1) + method + struct.pack(">H", 0))
