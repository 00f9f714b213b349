"""Class files that no compiler of today writes."""
import struct


class ClassFile:
    """Its constants, and then the file with one method."""

    def __init__(self, name, version):
        self.version = version
        self.constants = []
        self.this, self.parent = self.class_of(name), self.class_of("java/lang/Object")

    def add(self, tag, content):
        self.constants.append(struct.pack(">B", tag) + content)
        return len(self.constants)

    def utf8(self, text):
        return self.add(1, struct.pack(">H", len(text)) + text.encode())

    def class_of(self, text):
        return self.add(7, struct.pack(">H", self.utf8(text)))

    def method_of(self, of_class, name, types):
        return self.add(10, struct.pack(">HH", of_class, self.add(12, struct.pack(">HH", self.utf8(name), self.utf8(types)))))

    def with_method(self, access, name, types, code, stack, handlers=b""):
        content = struct.pack(">HHI", stack, 2, len(code)) + code + struct.pack(">H", len(handlers) // 8) + handlers + struct.pack(">H", 0)
        method = struct.pack(">HHHH", access, self.utf8(name), self.utf8(types), 1) + struct.pack(
            ">HI", self.utf8("Code"), len(content)) + content
        return (struct.pack(">IHHH", 0xCAFEBABE, 0, self.version, len(self.constants) + 1) + b"".join(self.constants) +
                struct.pack(">HHHHHH", 0x21, self.this, self.parent, 0, 0, 1) + method + struct.pack(">H", 0))


def old_constructor(name, version):
    """public class NAME { public NAME() { try { super(); } catch (any) { throw } } }: the handler reaches over the call of super()."""
    file = ClassFile(name, version)
    of_parent = file.method_of(file.parent, "<init>", "()V")
    code = struct.pack(">BBHBB", 0x2A, 0xB7, of_parent, 0xB1, 0xBF)  # aload_0, invokespecial, return; athrow
    return file.with_method(0x1, "<init>", "()V", code, 1, struct.pack(">HHHH", 0, 5, 5, 0))


def reused_parameter(name, version):
    """public class NAME { public static int go(There p, boolean b) { if (b) { p = Missing.make(); return 0; } return 1; } }, with a value in
    the parameter's local that is of another class."""
    file = ClassFile(name, version)
    make = file.method_of(file.class_of("Missing"), "make", "()LMissing;")
    # iload_1, ifeq to iconst_1; invokestatic, astore_0, iconst_0, ireturn; iconst_1, ireturn
    code = struct.pack(">BBHBHBBBBB", 0x1B, 0x99, 9, 0xB8, make, 0x4B, 0x03, 0xAC, 0x04, 0xAC)
    return file.with_method(0x9, "go", "(LThere;Z)I", code, 1)
