package plumb.internal;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.util.List;
import plumb.internal.Declaration.FieldShape;

/**
 * The two classes of an event, which are hidden, and go when the interface does.
 *
 * <p>The <em>front</em> stands beside the interface and implements it: each method calls a method handle that is a constant of the
 * class. It knows nothing of Plumb, so that its loader need not. The <em>writer</em> stands here, and has one static method that takes
 * the fields and calls native code: those that fit into a few words by arguments, put together by shifts, others by a Payload.
 */
final class Emitters {
    private static final String HANDLE = "java/lang/invoke/MethodHandle";
    private static final int I2L = 0x85, LAND = 0x7f, LOR = 0x81, LSHL = 0x79, LUSHR = 0x7d;
    private static final int RETURN = 0xb1, IRETURN = 0xac, ALOAD_0 = 0x2a, POP = 0x57;

    private Emitters() {}

    /** What implements the interface. `data`: the handles of emit() and isOn(), and what else has to live as long. */
    static Object makeFront(Declaration declaration, MethodHandles.Lookup beside, List<Object> data) throws IllegalAccessException {
        final String interfaceName = declaration.type.getName().replace('.', '/');
        final String around = beside.lookupClass().getPackageName().replace('.', '/');
        final ClassFile file = new ClassFile((around.isEmpty() ? "" : around + "/") + declaration.type.getSimpleName() + "Emitter",
            interfaceName);
        file.method(ClassFile.PUBLIC, "<init>", "()V", 1)
            .op(ALOAD_0).invokeSpecial("java/lang/Object", "<init>", "()V").op(RETURN).end(1);
        addFrontMethod(file, declaration.emit, 0, RETURN);
        if (declaration.isOn != null) addFrontMethod(file, declaration.isOn, 1, IRETURN);
        final MethodHandles.Lookup front = beside.defineHiddenClassWithClassData(file.toBytes(), data, true);
        try {
            return front.findConstructor(front.lookupClass(), MethodType.methodType(void.class)).invoke();
        } catch (IllegalAccessException refused) {
            throw refused;
        } catch (Throwable impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static void addFrontMethod(ClassFile file, Method method, int element, int returning) {
        final MethodType type = MethodType.methodType(method.getReturnType(), method.getParameterTypes());
        final String descriptor = type.toMethodDescriptorString();
        final int words = wordsOf(type);
        final ClassFile.Code code = file.method(ClassFile.PUBLIC | ClassFile.FINAL, method.getName(), descriptor, 1 + words);
        code.pushClassData(element, "L" + HANDLE + ";");
        int local = 1;
        for (Class<?> parameter : method.getParameterTypes()) {
            code.load(parameter.descriptorString().charAt(0), local);
            local += wordsOf(parameter);
        }
        code.invokeVirtual(HANDLE, "invokeExact", handleType(method).toMethodDescriptorString()).op(returning).end(2 + words);
    }

    /**
     * Of what one of the interface's methods leads to: every enum is an Enum there, since a method that was inherited from another package may
     * have one that neither of the two classes may name in a call.
     */
    static MethodType handleType(Method method) {
        MethodType type = MethodType.methodType(method.getReturnType(), method.getParameterTypes());
        for (int i = 0; i < type.parameterCount(); i++)
            if (type.parameterType(i).isEnum()) type = type.changeParameterType(i, Enum.class);
        return type;
    }

    /** What takes the fields while the event is on. */
    static MethodHandle makeWriter(Declaration declaration, long event) throws IllegalAccessException {
        final MethodType known = handleType(declaration.emit);
        final ClassFile file = new ClassFile("plumb/internal/Writer");
        final ClassFile.Code code =
            file.method(ClassFile.STATIC, "write", known.toMethodDescriptorString(), wordsOf(known));
        if (declaration.isVariable() || declaration.fixedBytes() > 8 * Native.MOST_WORDS)
            writePayload(code, declaration, known, event);
        else
            writeWords(code, declaration, known, event);
        code.op(RETURN).end(32);
        final MethodHandles.Lookup here = MethodHandles.lookup().defineHiddenClass(file.toBytes(), true);
        try {
            return here.findStatic(here.lookupClass(), "write", known);
        } catch (NoSuchMethodException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static void loadField(ClassFile.Code code, FieldShape field, MethodType type, int index, int local) {
        code.load(type.parameterType(index).descriptorString().charAt(0), local);
        if (field.type().isEnum()) code.invokeStatic("plumb/internal/Payload", "ordinal", "(Ljava/lang/Enum;)I");
    }

    private static void writePayload(ClassFile.Code code, Declaration declaration, MethodType type, long event) {
        final String payload = "plumb/internal/Payload";
        Payload.prepare();
        code.push(declaration.fixedBytes()).invokeStatic(payload, "begin", "(I)L" + payload + ";");
        int local = 0;
        for (int i = 0; i < type.parameterCount(); i++) {
            final FieldShape field = declaration.shape.fields().get(i);
            loadField(code, field, type, i, local);
            code.invokeVirtual(payload, field.type().put(), "(" + field.type().given() + ")L" + payload + ";");
            local += wordsOf(type.parameterType(i));
        }
        code.push(event).invokeVirtual(payload, "emit", "(J)V").op(RETURN);
        // What is put together goes deeper than while the event is off, and mostly than what counts it as lost. Where the stack ends in that, or
        // before this method has begun, the program hears of it.
        code.handler("java/lang/StackOverflowError").op(POP).push(event).invokeStatic("plumb/internal/Native", "lose", "(J)V");
    }

    /** Field after field without a gap: so a word has parts of some, and a field may stand in two words. */
    private static void writeWords(ClassFile.Code code, Declaration declaration, MethodType type, long event) {
        final boolean areFew = declaration.fixedBytes() <= 8 * Native.FEW_WORDS;
        final int words = areFew ? Native.FEW_WORDS : Native.MOST_WORDS;
        code.push(event);
        for (int word = 0; word < words; word++) {
            code.push(0L);
            int local = 0;
            int begin = -8 * word; // of the field, from the word's
            for (int i = 0; i < type.parameterCount(); i++) {
                final FieldShape field = declaration.shape.fields().get(i);
                if (begin < 8 && begin + field.type().size() > 0) {
                    loadField(code, field, type, i, local);
                    widen(code, field);
                    if (begin > 0) code.push(8 * begin).op(LSHL);
                    if (begin < 0) code.push(-8 * begin).op(LUSHR);
                    code.op(LOR);
                }
                begin += field.type().size();
                local += wordsOf(type.parameterType(i));
            }
        }
        code.invokeStatic("plumb/internal/Native", areFew ? "emit3" : "emit8", "(J" + "J".repeat(words) + ")V");
    }

    /** What is on the stack as a long without a bit beyond its size. */
    private static void widen(ClassFile.Code code, FieldShape field) {
        switch (field.type().given()) {
            case "J":
                return;
            case "D":
                code.invokeStatic("java/lang/Double", "doubleToRawLongBits", "(D)J");
                return;
            case "F":
                code.invokeStatic("java/lang/Float", "floatToRawIntBits", "(F)I");
                break;
            default:
        }
        code.op(I2L).push((1L << 8 * field.type().size()) - 1).op(LAND);
    }

    private static int wordsOf(Class<?> type) {
        return type == long.class || type == double.class ? 2 : 1;
    }

    private static int wordsOf(MethodType type) {
        int words = 0;
        for (Class<?> parameter : type.parameterList()) words += wordsOf(parameter);
        return words;
    }
}
