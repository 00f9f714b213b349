package plumb.internal;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import plumb.Event;
import plumb.Field;
import plumb.Hex;
import plumb.Unsigned;

/** What an interface with {@link Event} says, or what is wrong with it, in one message. */
final class Declaration {
    private static final int MOST_FIELDS = 32;
    /** Of PLUMB_EVENT_MAX_DESCRIPTION_BYTES, of which a session's context takes some. */
    private static final int MOST_DESCRIPTION_BYTES = 60000;

    private static final Pattern EVENT_NAME = Pattern.compile("[A-Za-z0-9_]+:[A-Za-z0-9_]+");
    private static final Pattern FIELD_NAME = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*");

    /** What tells events of one name apart. */
    record Shape(String name, int level, List<FieldShape> fields) {}

    record FieldShape(FieldType type, String name, List<String> labels) {}

    final Class<?> type;
    final Shape shape;
    final Method emit;
    /** Null: the interface has none. */
    final Method isOn;

    Declaration(Class<?> type) {
        this.type = type;
        final Event event = type.getAnnotation(Event.class);
        if (!type.isInterface() || event == null) throw wrong("is no interface with @Event(\"provider:event\")");
        if (type.isSealed() || type.isHidden()) throw wrong("is sealed or hidden, and can not be implemented");
        if (!EVENT_NAME.matcher(event.value()).matches())
            throw wrong("has the name \"" + event.value() + "\": it has to be provider:event, of ASCII letters, digits and _");
        Method found = null;
        Method question = null;
        for (Method method : type.getMethods()) {
            if (!Modifier.isAbstract(method.getModifiers())) continue;
            if (method.getName().equals("isOn") && method.getReturnType() == boolean.class && method.getParameterCount() == 0) {
                question = method;
            } else if (method.getReturnType() == void.class && found == null) {
                found = method;
            } else if (!isSame(method, found)) {
                throw wrong("may have one abstract method that returns void, and boolean isOn(); not also " + method);
            }
        }
        if (found == null) throw wrong("has no abstract method that returns void, whose parameters are the event's fields");
        emit = found;
        isOn = question;
        shape = new Shape(event.value(), event.level().ordinal(), fieldsOf(found));
        if (descriptionBytes() > MOST_DESCRIPTION_BYTES) throw wrong("has more names of enum constants than a trace can describe");
    }

    /** Of several interfaces above, each may have it. */
    private static boolean isSame(Method method, Method found) {
        return found != null && method.getName().equals(found.getName()) && method.getReturnType() == found.getReturnType()
            && Arrays.equals(method.getParameterTypes(), found.getParameterTypes());
    }

    private List<FieldShape> fieldsOf(Method method) {
        final Parameter[] parameters = method.getParameters();
        if (parameters.length > MOST_FIELDS)
            throw wrong("has " + parameters.length + " fields; an event has at most " + MOST_FIELDS);
        final List<FieldShape> fields = new ArrayList<>();
        final Set<String> names = new HashSet<>();
        for (Parameter parameter : parameters) {
            final String name = nameOf(parameter);
            if (!names.add(name)) throw wrong("has two fields " + name);
            fields.add(field(parameter, name));
        }
        return List.copyOf(fields);
    }

    private String nameOf(Parameter parameter) {
        final Field given = parameter.getAnnotation(Field.class);
        if (given == null && !parameter.isNamePresent())
            throw wrong("was compiled without names of parameters: compile it with -parameters, or give each its name by @Field(\"name\")");
        final String name = given != null ? given.value() : parameter.getName();
        if (!FIELD_NAME.matcher(name).matches())
            throw wrong("has a field \"" + name + "\": names are made of ASCII letters, digits and _"
                + (given == null ? "; @Field(\"name\") gives it another one" : ""));
        return name;
    }

    private FieldShape field(Parameter parameter, String name) {
        final Class<?> java = parameter.getType();
        final boolean isHex = parameter.isAnnotationPresent(Hex.class);
        final boolean isUnsigned = isHex || parameter.isAnnotationPresent(Unsigned.class);
        if (java.isEnum()) {
            if (isUnsigned) throw wrong("has @Unsigned or @Hex at the enum " + name);
            return enumField(java, name);
        }
        final FieldType known = FieldType.of(java);
        if (known == null)
            throw wrong("has a field " + name + " of type " + java.getTypeName()
                + ": a field is of a primitive type, String, an enum, or an array of a primitive type");
        if (!isUnsigned) return new FieldShape(known, name, List.of());
        if (!known.isSigned()) throw wrong("has @Unsigned or @Hex at " + name + ", which is not a byte, short, int or long");
        return new FieldShape(known.unsigned(isHex), name, List.of());
    }

    /** Null is -1, and a constant is its ordinal number. Where nobody says what there is, numbers are all, and there may be many. */
    private FieldShape enumField(Class<?> java, String name) {
        final List<String> labels = new ArrayList<>();
        labels.add("null");
        final List<String> constants = constantsOf(java);
        labels.addAll(constants);
        final int size = !constants.isEmpty() && constants.size() <= Byte.MAX_VALUE ? 1 : 2;
        return new FieldShape(FieldType.ofEnum(size), name, List.copyOf(labels));
    }

    /**
     * By what the class has as fields, in their order: to ask the enum would initialise it, which may need what is being initialised while the
     * event is declared, here or in another thread. It is asked where a class is missing that a public field of it names, and that the
     * program may do without.
     */
    private static List<String> constantsOf(Class<?> java) {
        try {
            return Stream.of(java.getFields()).filter(each -> each.isEnumConstant() && each.getDeclaringClass() == java)
                .map(each -> each.getName()).toList();
        } catch (LinkageError missing) {
            return askedConstantsOf(java);
        }
    }

    private static List<String> askedConstantsOf(Class<?> java) {
        try {
            final Object[] constants = java.getEnumConstants(); // null: it is being initialised
            return constants == null ? List.of() : Stream.of(constants).map(each -> ((Enum<?>) each).name()).toList();
        } catch (LinkageError missing) { // a public method names it as well
            return List.of();
        }
    }

    private int descriptionBytes() {
        int bytes = 32 + shape.name.length() + 2;
        for (FieldShape field : shape.fields) {
            bytes += 16 + utf8(field.name).length + 1;
            for (String label : field.labels) bytes += 16 + utf8(label).length + 1;
        }
        return bytes;
    }

    /** What describe() takes at most. */
    int describedBytes(String sourceFile) {
        return 64 + 16 * shape.fields.size() + descriptionBytes() + utf8(sourceFile).length + 1;
    }

    /** As events.c reads it: numbers as they are in memory, and names that end with a NUL. */
    void describe(ByteBuffer to, String sourceFile, int sourceLine) {
        to.putInt(sourceLine).putInt(shape.level).putInt(shape.fields.size()).putInt(fixedBytes());
        final int colon = shape.name.indexOf(':');
        put(to, shape.name.substring(0, colon));
        put(to, shape.name.substring(colon + 1));
        put(to, sourceFile);
        for (FieldShape field : shape.fields) {
            to.put((byte) field.type.kind()).put((byte) field.type.size()).put((byte) field.type.flags());
            to.putShort((short) field.labels.size());
            put(to, field.name);
            for (String label : field.labels) put(to, label);
        }
    }

    private static void put(ByteBuffer to, String text) {
        to.put(utf8(text)).put((byte) 0);
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** What the fields take at least: of text and sequences the count. */
    int fixedBytes() {
        int bytes = 0;
        for (FieldShape field : shape.fields) bytes += field.type.isVariable() ? 2 : field.type.size();
        return bytes;
    }

    boolean isVariable() {
        return shape.fields.stream().anyMatch(field -> field.type.isVariable());
    }

    IllegalArgumentException wrong(String what) {
        return new IllegalArgumentException("plumb: " + type.getName() + " " + what);
    }
}
