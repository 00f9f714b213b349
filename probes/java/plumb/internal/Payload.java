package plumb.internal;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * The fields of an event on their way into native code, for events that have some of variable length: as they lie in a record. A thread
 * has one, so that emitting makes no object, but for the first time and for longer texts than before. Virtual threads share some, as
 * there may be too many of them.
 *
 * <p>All fields together may be larger than a record, each field by itself not: the native side shortens the longest, and counts that.
 */
final class Payload {
    /** PLUMB_RECORD_MAX_BYTES without the record's header. */
    static final int MOST_BYTES = 65528 - 16;
    /** Of up to 32 fields that each are as large. */
    private static final int ALL_BYTES_MOST = 32 * MOST_BYTES;

    private static final int FIRST_BYTES = 4096;
    /** What a thread keeps for its next event. */
    private static final int KEPT_BYTES_MOST = 2 * MOST_BYTES;
    /** All that fields of one size may take, and the counts of the others; and what native code writes behind the end. */
    private static final int FIXED_BYTES_MOST = 32 * 8, SLACK_BYTES = 16;

    private static final ThreadLocal<Payload> OF_THREAD = ThreadLocal.withInitial(Payload::new);
    private static final AtomicReferenceArray<Payload> SHARED = new AtomicReferenceArray<>(64);
    private static final MethodHandle IS_VIRTUAL = findIsVirtual();

    static {
        SHARED.set(0, new Payload());
    }

    private ByteBuffer bytes;
    private long address;
    private byte[] array; // as large: where a text is put together
    private int at;
    private int most; // bytes of a field that varies
    private int room; // of all of them
    private boolean isCut;
    private int place = -1; // among those that are shared

    private Payload() {
        allocate(FIRST_BYTES);
    }

    private void allocate(int capacity) {
        final byte[] largerArray = new byte[capacity];
        bytes = ByteBuffer.allocateDirect(capacity).order(ByteOrder.LITTLE_ENDIAN);
        array = largerArray;
        address = Native.addressOf(bytes);
    }

    /** Null before Java 21, where no thread is virtual. */
    private static MethodHandle findIsVirtual() {
        try {
            return MethodHandles.publicLookup().findVirtual(Thread.class, "isVirtual", MethodType.methodType(boolean.class));
        } catch (ReflectiveOperationException none) {
            return null;
        }
    }

    private static boolean isVirtual(Thread thread) {
        if (IS_VIRTUAL == null) return false;
        try {
            return (boolean) IS_VIRTUAL.invokeExact(thread);
        } catch (Throwable impossible) {
            return false;
        }
    }

    /** For an event whose fields take so many bytes at least. Ends with emit(). */
    static Payload begin(int fixedBytes) {
        final Payload payload = take(Thread.currentThread());
        payload.at = 0;
        payload.most = MOST_BYTES - fixedBytes;
        payload.room = ALL_BYTES_MOST;
        payload.isCut = false;
        return payload;
    }

    private static Payload take(Thread thread) {
        try {
            return isVirtual(thread) ? takeShared(thread) : OF_THREAD.get();
        } catch (OutOfMemoryError none) {
            return waitForShared();
        }
    }

    private static Payload takeShared(Thread thread) {
        final int begin = System.identityHashCode(thread);
        for (int i = 0; i < 4; i++) {
            final int place = (begin + i) & (SHARED.length() - 1);
            final Payload free = SHARED.getAndSet(place, null);
            if (free == null) continue;
            free.place = place;
            return free;
        }
        final Payload another = new Payload();
        another.place = begin & (SHARED.length() - 1);
        return another;
    }

    /** Where the program has used up its direct memory: one is there from the beginning, and taken for no longer than an event. */
    private static Payload waitForShared() {
        for (int place = 0;; place = (place + 1) & (SHARED.length() - 1)) {
            final Payload free = SHARED.getAndSet(place, null);
            if (free != null) {
                free.place = place;
                return free;
            }
            Thread.onSpinWait();
        }
    }

    void emit(long event) {
        Native.emit(event, address, at, isCut);
        Reference.reachabilityFence(this);
        if (bytes.capacity() > KEPT_BYTES_MOST) shrink();
        if (place < 0) return;
        final int own = place;
        place = -1;
        SHARED.lazySet(own, this);
    }

    Payload i8(int value) {
        bytes.put(at, (byte) value);
        at += 1;
        return this;
    }

    Payload i16(int value) {
        bytes.putShort(at, (short) value);
        at += 2;
        return this;
    }

    Payload i32(int value) {
        bytes.putInt(at, value);
        at += 4;
        return this;
    }

    Payload i64(long value) {
        bytes.putLong(at, value);
        at += 8;
        return this;
    }

    /** By its bits: a NaN stays the one that it is. */
    Payload f32(float value) {
        return i32(Float.floatToRawIntBits(value));
    }

    Payload f64(double value) {
        return i64(Double.doubleToRawLongBits(value));
    }

    /** -1 for null. */
    static int ordinal(Enum<?> value) {
        return value == null ? -1 : value.ordinal();
    }

    /**
     * In UTF-8; half of a surrogate pair is '?'. By an array, since single bytes of a direct buffer take longer; and as nearly all text is
     * ASCII, as the JVM copies that, with a look whether it was.
     */
    @SuppressWarnings("deprecation") // getBytes() of the lower halves
    Payload text(String text) {
        final String known = text == null ? "(null)" : text;
        final int chars = known.length();
        final int fits = reserve(3L * chars);
        int used = chars;
        if (chars <= fits) known.getBytes(0, chars, array, 0);
        if (chars > fits || !isAscii(known)) used = encode(known, fits);
        bytes.putShort(at, (short) used);
        bytes.put(at + 2, array, 0, used);
        at += 2 + used;
        room -= used;
        return this;
    }

    private static boolean isAscii(String text) {
        int bits = 0;
        for (int i = 0; i < text.length(); i++) bits |= text.charAt(i);
        return bits < 0x80;
    }

    /** What fits of it, into the array; how many bytes that are. */
    private int encode(String text, int fits) {
        final byte[] to = array;
        int used = 0;
        for (int i = 0; i < text.length(); i++) {
            final char c = text.charAt(i);
            final boolean isPair = Character.isHighSurrogate(c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1));
            final boolean isHalf = !isPair && Character.isSurrogate(c);
            final int size = c < 0x80 || isHalf ? 1 : c < 0x800 ? 2 : isPair ? 4 : 3;
            if (size > fits - used) {
                isCut = true;
                break;
            }
            if (size == 1) {
                to[used++] = isHalf ? (byte) '?' : (byte) c;
            } else if (size == 2) {
                to[used++] = (byte) (0xc0 | c >> 6);
                to[used++] = (byte) (0x80 | c & 0x3f);
            } else {
                final int code = isPair ? Character.toCodePoint(c, text.charAt(++i)) : c;
                if (isPair) to[used++] = (byte) (0xf0 | code >> 18);
                to[used++] = (byte) (isPair ? 0x80 | code >> 12 & 0x3f : 0xe0 | code >> 12);
                to[used++] = (byte) (0x80 | code >> 6 & 0x3f);
                to[used++] = (byte) (0x80 | code & 0x3f);
            }
        }
        return used;
    }

    Payload bytes(byte[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 1);
        if (count > 0) bytes.put(at, values, 0, count);
        at += count;
        return this;
    }

    Payload booleans(boolean[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 1);
        for (int i = 0; i < count; i++) bytes.put(at + i, (byte) (values[i] ? 1 : 0));
        at += count;
        return this;
    }

    Payload shorts(short[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 2);
        for (int i = 0; i < count; i++) bytes.putShort(at + 2 * i, values[i]);
        at += 2 * count;
        return this;
    }

    Payload chars(char[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 2);
        for (int i = 0; i < count; i++) bytes.putChar(at + 2 * i, values[i]);
        at += 2 * count;
        return this;
    }

    Payload ints(int[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 4);
        for (int i = 0; i < count; i++) bytes.putInt(at + 4 * i, values[i]);
        at += 4 * count;
        return this;
    }

    Payload longs(long[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 8);
        for (int i = 0; i < count; i++) bytes.putLong(at + 8 * i, values[i]);
        at += 8 * count;
        return this;
    }

    Payload floats(float[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 4);
        for (int i = 0; i < count; i++) bytes.putInt(at + 4 * i, Float.floatToRawIntBits(values[i]));
        at += 4 * count;
        return this;
    }

    Payload doubles(double[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 8);
        for (int i = 0; i < count; i++) bytes.putLong(at + 8 * i, Double.doubleToRawLongBits(values[i]));
        at += 8 * count;
        return this;
    }

    /** How many of the elements there is room for: they are to be written where `at` is then. */
    private int beginSequence(int count, int size) {
        final int fits = Math.min(count, reserve((long) count * size) / size);
        if (fits < count) isCut = true;
        bytes.putShort(at, (short) fits);
        at += 2;
        room -= fits * size;
        return fits;
    }

    /** Room for so many bytes, or for as many as a field may have, and for all fields of one size; which there is. */
    private int reserve(long more) {
        final long needed = at + Math.min(more, Math.min(most, room)) + FIXED_BYTES_MOST + SLACK_BYTES;
        if (needed > bytes.capacity()) grow((int) needed);
        return Math.min(most, room);
    }

    private void shrink() {
        try {
            allocate(FIRST_BYTES);
        } catch (OutOfMemoryError none) {
            // It has what it had.
        }
    }

    private void grow(int needed) {
        final ByteBuffer before = bytes;
        try {
            allocate(Math.max(needed, Math.min(2 * needed, MOST_BYTES + 2 * FIXED_BYTES_MOST + SLACK_BYTES)));
        } catch (OutOfMemoryError none) {
            room = before.capacity() - at - FIXED_BYTES_MOST - SLACK_BYTES;
            return;
        }
        bytes.put(0, before, 0, at);
    }
}
