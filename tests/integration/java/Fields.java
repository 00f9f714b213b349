import java.util.Random;
import plumb.Event;
import plumb.Hex;
import plumb.Plumb;
import plumb.Unsigned;

/** Emits random values, and says what they are: for each event a line of JSON. */
public class Fields {
    enum Status { NEW, SENT, größer }

    /** Fits into three words of arguments, with fields that stand in two of them. */
    @Event("shop:few")
    interface Few {
        void emit(byte a, short b, char c, boolean d, long e, @Hex int f, float g);
    }

    /** Fits into eight. */
    @Event("shop:many")
    interface Many {
        void emit(boolean b, byte i8, short i16, int i32, long i64, @Unsigned byte u8, @Unsigned short u16, @Unsigned int u32,
            @Unsigned long u64, char c, float f32, double f64, Status status);
    }

    /** Fits into no arguments. */
    @Event("shop:wide")
    interface Wide {
        void emit(long a, double b, long c, double d, long e, double f, long g, double h, byte i, Status j, float k);
    }

    @Event("shop:texts")
    interface Texts {
        void emit(int id, String one, byte between, String two, double total);
    }

    @Event("shop:arrays")
    interface Arrays {
        void emit(boolean[] b, byte[] i8, short[] i16, char[] c, int[] i32, long[] i64, @Unsigned byte[] u8, @Unsigned short[] u16,
            @Hex int[] x32, @Unsigned long[] u64, float[] f32, double[] f64, int last);
    }

    static final Few FEW = Plumb.event(Few.class);
    static final Many MANY = Plumb.event(Many.class);
    static final Wide WIDE = Plumb.event(Wide.class);
    static final Texts TEXTS = Plumb.event(Texts.class);
    static final Arrays ARRAYS = Plumb.event(Arrays.class);

    static final StringBuilder said = new StringBuilder();

    static void say(String event, Object... namesAndValues) {
        said.append("[\"shop:").append(event).append("\", {");
        for (int i = 0; i < namesAndValues.length; i += 2) {
            if (i > 0) said.append(", ");
            said.append('"').append(namesAndValues[i]).append("\": ").append(namesAndValues[i + 1]);
        }
        said.append("}]\n");
    }

    static String bits(float value) { return "{\"float\": " + Integer.toUnsignedString(Float.floatToRawIntBits(value)) + "}"; }

    static String bits(double value) { return "{\"double\": " + Long.toUnsignedString(Double.doubleToRawLongBits(value)) + "}"; }

    static String name(Status status) {
        return "{\"value\": " + (status == null ? -1 : status.ordinal()) + ", \"label\": \"" + status + "\"}";
    }

    static String quoted(String text) {
        final StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) quoted.append(String.format("\\u%04x", (int) c));
        return quoted.append('"').toString();
    }

    static String text(Random random) {
        final int[] bounds = {0x80, 0x100, 0x800, 0xd800, 0x110000};
        final StringBuilder text = new StringBuilder();
        for (int left = random.nextInt(40) * random.nextInt(20); left > 0; left--) {
            final int code = random.nextInt(bounds[random.nextInt(bounds.length)]);
            text.appendCodePoint(code >= 0xd800 && code < 0xe000 ? 'x' : code);
        }
        return text.toString();
    }

    static Status status(Random random) {
        final int which = random.nextInt(Status.values().length + 1);
        return which == 0 ? null : Status.values()[which - 1];
    }

    static void arrays(Random r) {
        final int count = r.nextInt(5);
        final boolean[] b = new boolean[count];
        final byte[] i8 = new byte[count];
        final short[] i16 = new short[count];
        final char[] c = new char[count];
        final long[] i64 = r.longs(count).toArray();
        final int[] i32 = r.ints(count).toArray(), bits = new int[count], u8 = new int[count], u16 = new int[count], chars = new int[count];
        final float[] f32 = new float[count];
        final double[] f64 = new double[count];
        final String[] u32 = new String[count], u64 = new String[count], floats = new String[count], doubles = new String[count];
        for (int i = 0; i < count; i++) {
            b[i] = r.nextBoolean();
            bits[i] = b[i] ? 1 : 0;
            i8[i] = (byte) r.nextInt();
            u8[i] = i8[i] & 0xff;
            i16[i] = (short) r.nextInt();
            u16[i] = i16[i] & 0xffff;
            chars[i] = c[i] = (char) r.nextInt();
            u32[i] = Integer.toUnsignedString(i32[i]);
            u64[i] = Long.toUnsignedString(i64[i]);
            f32[i] = Float.intBitsToFloat(i32[i]);
            f64[i] = Double.longBitsToDouble(i64[i]);
            floats[i] = bits(f32[i]);
            doubles[i] = bits(f64[i]);
        }
        final int last = r.nextInt();
        ARRAYS.emit(b, i8, i16, c, i32, i64, i8, i16, i32, i64, f32, f64, last);
        say("arrays", "b", list(bits), "i8", java.util.Arrays.toString(i8), "i16", java.util.Arrays.toString(i16), "c", list(chars), "i32",
            list(i32), "i64", java.util.Arrays.toString(i64), "u8", list(u8), "u16", list(u16), "x32", java.util.Arrays.toString(u32), "u64",
            java.util.Arrays.toString(u64), "f32", java.util.Arrays.toString(floats), "f64", java.util.Arrays.toString(doubles), "last", last);
    }

    static String list(int[] values) { return java.util.Arrays.toString(values); }

    public static void main(String[] words) {
        final Random r = new Random(7);
        for (int i = 0; i < 1000; i++) {
            final byte a = (byte) r.nextInt();
            final short s = (short) r.nextInt();
            final char c = (char) r.nextInt();
            final boolean d = r.nextBoolean();
            final long e = r.nextLong();
            final int f = r.nextInt();
            final float g = Float.intBitsToFloat(r.nextInt());
            final double h = Double.longBitsToDouble(r.nextLong());
            final Status status = status(r);
            FEW.emit(a, s, c, d, e, f, g);
            say("few", "a", a, "b", s, "c", (int) c, "d", d ? 1 : 0, "e", e, "f", Integer.toUnsignedString(f), "g", bits(g));
            MANY.emit(d, a, s, f, e, a, s, f, e, c, g, h, status);
            say("many", "b", d ? 1 : 0, "i8", a, "i16", s, "i32", f, "i64", e, "u8", a & 0xff, "u16", s & 0xffff, "u32",
                Integer.toUnsignedString(f), "u64", Long.toUnsignedString(e), "c", (int) c, "f32", bits(g), "f64", bits(h), "status",
                name(status));
            WIDE.emit(e, h, ~e, -h, e >> 3, h / 3, e << 3, h * 3, a, status, g);
            say("wide", "a", e, "b", bits(h), "c", ~e, "d", bits(-h), "e", e >> 3, "f", bits(h / 3), "g", e << 3, "h", bits(h * 3), "i", a,
                "j", name(status), "k", bits(g));
            final String one = text(r), two = text(r);
            TEXTS.emit(f, one, a, two, h);
            say("texts", "id", f, "one", quoted(one), "between", a, "two", quoted(two), "total", bits(h));
            arrays(r);
        }
        System.out.print(said);
    }
}
