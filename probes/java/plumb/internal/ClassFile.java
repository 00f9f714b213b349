package plumb.internal;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Writes the few classes that Emitters makes: methods without branches, of the instructions that these need, with one handler of what is
 * thrown at most. Java has nothing for that before version 24.
 */
final class ClassFile {
    private static final int JAVA_17 = 61;
    private static final int UTF8 = 1, INTEGER = 3, LONG = 5, CLASS = 7, METHOD = 10, NAME_AND_TYPE = 12, METHOD_HANDLE = 15, DYNAMIC = 17;
    private static final int INVOKE_STATIC_KIND = 6;
    static final int PUBLIC = 1, STATIC = 8, FINAL = 0x10, SYNTHETIC = 0x1000;

    private final ByteArrayOutputStream poolBytes = new ByteArrayOutputStream();
    private final DataOutputStream pool = new DataOutputStream(poolBytes);
    private final Map<List<Object>, Integer> known = new HashMap<>();
    private int poolCount = 1;
    private final ByteArrayOutputStream methodBytes = new ByteArrayOutputStream();
    private final DataOutputStream methods = new DataOutputStream(methodBytes);
    private int methodCount = 0;
    private final ByteArrayOutputStream bootstrapBytes = new ByteArrayOutputStream();
    private final DataOutputStream bootstraps = new DataOutputStream(bootstrapBytes);
    private int bootstrapCount = 0;
    private final int ownClass;
    private final int superClass;
    private final int[] interfaces;

    private interface Writing {
        void to(DataOutputStream out) throws IOException;
    }

    /** Names as in class files, with slashes. */
    ClassFile(String name, String... interfaceNames) {
        ownClass = type(name);
        superClass = type("java/lang/Object");
        interfaces = new int[interfaceNames.length];
        for (int i = 0; i < interfaces.length; i++) interfaces[i] = type(interfaceNames[i]);
    }

    private static void write(DataOutputStream to, Writing what) {
        try {
            what.to(to);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
    }

    private int constant(List<Object> key, int slots, Writing what) {
        final Integer there = known.get(key);
        if (there != null) return there;
        final int index = poolCount;
        write(pool, what);
        poolCount += slots;
        known.put(key, index);
        return index;
    }

    private int utf8(String text) {
        return constant(List.of(UTF8, text), 1, out -> {
            out.writeByte(UTF8);
            out.writeUTF(text);
        });
    }

    private int type(String name) {
        final int text = utf8(name);
        return constant(List.of(CLASS, name), 1, out -> {
            out.writeByte(CLASS);
            out.writeShort(text);
        });
    }

    private int nameAndType(String name, String descriptor) {
        final int first = utf8(name), second = utf8(descriptor);
        return pair(NAME_AND_TYPE, first, second);
    }

    private int pair(int tag, int first, int second) {
        return constant(List.of(tag, first, second), 1, out -> {
            out.writeByte(tag);
            out.writeShort(first);
            out.writeShort(second);
        });
    }

    private int method(String owner, String name, String descriptor) {
        final int first = type(owner), second = nameAndType(name, descriptor);
        return pair(METHOD, first, second);
    }

    private int number(long value) {
        return constant(List.of(LONG, value), 2, out -> {
            out.writeByte(LONG);
            out.writeLong(value);
        });
    }

    private int number(int value) {
        return constant(List.of(INTEGER, value), 1, out -> {
            out.writeByte(INTEGER);
            out.writeInt(value);
        });
    }

    /** The element of the class's data, a list, as a constant of that type. */
    private int classData(int element, String descriptor) {
        final Integer there = known.get(List.<Object>of(DYNAMIC, element));
        if (there != null) return there;
        final int finder = method("java/lang/invoke/MethodHandles", "classDataAt",
            "(Ljava/lang/invoke/MethodHandles$Lookup;Ljava/lang/String;Ljava/lang/Class;I)Ljava/lang/Object;");
        final int handle = constant(List.of(METHOD_HANDLE, finder), 1, out -> {
            out.writeByte(METHOD_HANDLE);
            out.writeByte(INVOKE_STATIC_KIND);
            out.writeShort(finder);
        });
        final int which = number(element), what = nameAndType("_", descriptor), bootstrap = bootstrapCount++;
        write(bootstraps, out -> {
            out.writeShort(handle);
            out.writeShort(1);
            out.writeShort(which);
        });
        return constant(List.of(DYNAMIC, element), 1, out -> {
            out.writeByte(DYNAMIC);
            out.writeShort(bootstrap);
            out.writeShort(what);
        });
    }

    /** The instructions of one method; end() adds it to the class. */
    final class Code {
        private static final int ILOAD = 0x15, LLOAD = 0x16, FLOAD = 0x17, DLOAD = 0x18, ALOAD = 0x19;
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private final DataOutputStream out = new DataOutputStream(bytes);
        private final int flags;
        private final String name;
        private final String descriptor;
        private final int locals;
        private int handlerAt = 0; // 0: there is none
        private String caught;

        Code(int flags, String name, String descriptor, int locals) {
            this.flags = flags;
            this.name = name;
            this.descriptor = descriptor;
            this.locals = locals;
        }

        Code op(int code) {
            write(out, to -> to.writeByte(code));
            return this;
        }

        private Code wide(int code, int operand) {
            write(out, to -> {
                to.writeByte(code);
                to.writeShort(operand);
            });
            return this;
        }

        /** By the first letter of its descriptor. */
        Code load(char type, int local) {
            op(type == 'J' ? LLOAD : type == 'F' ? FLOAD : type == 'D' ? DLOAD : type == 'L' || type == '[' ? ALOAD : ILOAD);
            return op(local);
        }

        Code push(long value) {
            return wide(0x14, number(value)); // ldc2_w
        }

        Code push(int value) {
            return wide(0x13, number(value)); // ldc_w
        }

        Code pushClassData(int element, String descriptorOfIt) {
            return wide(0x13, classData(element, descriptorOfIt));
        }

        Code invokeVirtual(String owner, String called, String of) {
            return wide(0xb6, method(owner, called, of));
        }

        Code invokeSpecial(String owner, String called, String of) {
            return wide(0xb7, method(owner, called, of));
        }

        Code invokeStatic(String owner, String called, String of) {
            return wide(0xb8, method(owner, called, of));
        }

        /** What comes next is for that, thrown by what there is so far; it is on the stack then, and locals are as the method began. */
        Code handler(String thrown) {
            handlerAt = bytes.size();
            caught = thrown;
            return this;
        }

        private void writeHandler(DataOutputStream to) throws IOException {
            to.writeShort(1);
            to.writeShort(0); // from the beginning
            to.writeShort(handlerAt);
            to.writeShort(handlerAt);
            to.writeShort(type(caught));
            to.writeShort(1);
            to.writeShort(utf8("StackMapTable"));
            to.writeInt(8);
            to.writeShort(1);
            to.writeByte(247); // same_locals_1_stack_item_frame_extended
            to.writeShort(handlerAt);
            to.writeByte(7); // an object
            to.writeShort(type(caught));
        }

        /** `stack`: the most that it has on the stack, in words of 32 bits. */
        void end(int stack) {
            final int nameIndex = utf8(name), descriptorIndex = utf8(descriptor), code = utf8("Code");
            final ByteArrayOutputStream behind = new ByteArrayOutputStream();
            write(new DataOutputStream(behind), to -> {
                if (handlerAt != 0) {
                    writeHandler(to);
                } else {
                    to.writeShort(0); // handlers
                    to.writeShort(0); // attributes
                }
            });
            write(methods, to -> {
                to.writeShort(flags);
                to.writeShort(nameIndex);
                to.writeShort(descriptorIndex);
                to.writeShort(1);
                to.writeShort(code);
                to.writeInt(8 + bytes.size() + behind.size());
                to.writeShort(stack);
                to.writeShort(locals);
                to.writeInt(bytes.size());
                to.write(bytes.toByteArray());
                to.write(behind.toByteArray());
            });
            methodCount++;
        }
    }

    Code method(int flags, String name, String descriptor, int locals) {
        return new Code(flags, name, descriptor, locals);
    }

    byte[] toBytes() {
        final int attribute = bootstrapCount > 0 ? utf8("BootstrapMethods") : 0;
        final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        write(new DataOutputStream(bytes), out -> {
            out.writeInt(0xcafebabe);
            out.writeShort(0);
            out.writeShort(JAVA_17);
            out.writeShort(poolCount);
            out.write(poolBytes.toByteArray());
            out.writeShort(FINAL | SYNTHETIC | 0x20); // as every class since Java 1.0.2: ACC_SUPER
            out.writeShort(ownClass);
            out.writeShort(superClass);
            out.writeShort(interfaces.length);
            for (int each : interfaces) out.writeShort(each);
            out.writeShort(0); // fields
            out.writeShort(methodCount);
            out.write(methodBytes.toByteArray());
            out.writeShort(attribute != 0 ? 1 : 0);
            if (attribute == 0) return;
            out.writeShort(attribute);
            out.writeInt(2 + bootstrapBytes.size());
            out.writeShort(bootstrapCount);
            out.write(bootstrapBytes.toByteArray());
        });
        return bytes.toByteArray();
    }
}
