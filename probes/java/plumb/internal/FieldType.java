package plumb.internal;

import java.util.Map;

/**
 * How a parameter's type lies in a record.
 *
 * @param name as docs/tracepoints.md has it
 * @param kind enum plumb_field_type
 * @param size bytes of one number
 * @param flags PLUMB_FIELD_SIGNED, PLUMB_FIELD_HEX, PLUMB_FIELD_FLOATS
 * @param put the method of {@link Payload} that writes it
 * @param given what that method takes, as a descriptor
 */
record FieldType(String name, int kind, int size, int flags, String put, String given) {
    private static final int INTEGER = 1, FLOAT = 2, ENUM = 3, TEXT = 5, SEQUENCE = 7;
    private static final int SIGNED = 1, HEX = 2, FLOATS = 8;

    private static final Map<Class<?>, FieldType> KNOWN = Map.ofEntries(
        Map.entry(boolean.class, new FieldType("bool", INTEGER, 1, 0, "i8", "I")),
        Map.entry(byte.class, new FieldType("i8", INTEGER, 1, SIGNED, "i8", "I")),
        Map.entry(short.class, new FieldType("i16", INTEGER, 2, SIGNED, "i16", "I")),
        Map.entry(char.class, new FieldType("u16", INTEGER, 2, 0, "i16", "I")),
        Map.entry(int.class, new FieldType("i32", INTEGER, 4, SIGNED, "i32", "I")),
        Map.entry(long.class, new FieldType("i64", INTEGER, 8, SIGNED, "i64", "J")),
        Map.entry(float.class, new FieldType("f32", FLOAT, 4, 0, "f32", "F")),
        Map.entry(double.class, new FieldType("f64", FLOAT, 8, 0, "f64", "D")),
        Map.entry(String.class, new FieldType("text", TEXT, 1, 0, "text", "Ljava/lang/String;")),
        Map.entry(boolean[].class, new FieldType("bool[]", SEQUENCE, 1, 0, "booleans", "[Z")),
        Map.entry(byte[].class, new FieldType("i8[]", SEQUENCE, 1, SIGNED, "bytes", "[B")),
        Map.entry(short[].class, new FieldType("i16[]", SEQUENCE, 2, SIGNED, "shorts", "[S")),
        Map.entry(char[].class, new FieldType("u16[]", SEQUENCE, 2, 0, "chars", "[C")),
        Map.entry(int[].class, new FieldType("i32[]", SEQUENCE, 4, SIGNED, "ints", "[I")),
        Map.entry(long[].class, new FieldType("i64[]", SEQUENCE, 8, SIGNED, "longs", "[J")),
        Map.entry(float[].class, new FieldType("f32[]", SEQUENCE, 4, FLOATS, "floats", "[F")),
        Map.entry(double[].class, new FieldType("f64[]", SEQUENCE, 8, FLOATS, "doubles", "[D")));

    /** Null: no field is of that type. */
    static FieldType of(Class<?> java) {
        return KNOWN.get(java);
    }

    static FieldType ofEnum(int size) {
        return new FieldType("enum", ENUM, size, SIGNED, size == 1 ? "i8" : "i16", "I");
    }

    FieldType unsigned(boolean isHex) {
        return new FieldType((isHex ? "x" : "u") + name.substring(1), kind, size, isHex ? HEX : 0, put, given);
    }

    boolean isSigned() {
        return (flags & SIGNED) != 0;
    }

    boolean isEnum() {
        return kind == ENUM;
    }

    boolean isVariable() {
        return kind == TEXT || kind == SEQUENCE;
    }

    @Override
    public String toString() {
        return name;
    }
}
