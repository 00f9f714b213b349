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
 * <p>What does not fit into a record is cut, in the order of the fields; the native side counts that.
 */
final class Payload {
    /** PLUMB_RECORD_MAX_BYTES without the record's header. */
    static final int MOST_BYTES = 65528 - 16;

    private static final int FIRST_BYTES = 4096;
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
    private int at;
    private int room;
    private boolean isCut;
    private int place = -1; // among those that are shared

    private Payload() {
        allocate(FIRST_BYTES);
    }

    private void allocate(int capacity) {
        bytes = ByteBuffer.allocateDirect(capacity).order(ByteOrder.LITTLE_ENDIAN);
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
        payload.room = MOST_BYTES - fixedBytes;
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

    /** In UTF-8; half of a surrogate pair is '?'. */
    Payload text(String text) {
        final String known = text == null ? "(null)" : text;
        final int chars = known.length();
        reserve(3L * chars);
        final int begin = at + 2;
        final int end = begin + room;
        final int most = Math.min(chars, room);
        final ByteBuffer to = bytes;
        int next = begin;
        int i = 0;
        for (; i < most; i++) {
            final char c = known.charAt(i);
            if (c >= 0x80) break;
            to.put(next++, (byte) c);
        }
        if (i < chars) next = encode(known, i, next, end);
        to.putShort(at, (short) (next - begin));
        room -= next - begin;
        at = next;
        return this;
    }

    /** From the character `i` on. Where it ends. */
    private int encode(String text, int i, int from, int end) {
        int next = from;
        while (i < text.length()) {
            final int code = text.codePointAt(i);
            i += Character.charCount(code);
            final boolean isHalf = code >= Character.MIN_SURROGATE && code <= Character.MAX_SURROGATE;
            final int size = code < 0x80 || isHalf ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
            if (size > end - next) {
                isCut = true;
                return next;
            }
            if (size == 1) {
                bytes.put(next++, isHalf ? (byte) '?' : (byte) code);
                continue;
            }
            bytes.put(next++, (byte) ((0xf00 >> size & 0xf0) | code >> 6 * (size - 1)));
            for (int left = size - 2; left >= 0; left--) bytes.put(next++, (byte) (0x80 | (code >> 6 * left & 0x3f)));
        }
        return next;
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

    /** How many of the elements there is room for: they are to be written where `at` is then. */
    private int beginSequence(int count, int size) {
        reserve((long) count * size);
        final int fits = Math.min(count, room / size);
        if (fits < count) isCut = true;
        bytes.putShort(at, (short) fits);
        at += 2;
        room -= fits * size;
        return fits;
    }

    /** Room for so many bytes, or for as many as a record may have, and for all fields of one size. */
    private void reserve(long more) {
        final long needed = at + Math.min(more, room) + FIXED_BYTES_MOST + SLACK_BYTES;
        if (needed > bytes.capacity()) grow((int) needed);
    }

    private void grow(int needed) {
        final ByteBuffer before = bytes;
        try {
            allocate(Math.min(2 * needed, MOST_BYTES + 2 * FIXED_BYTES_MOST + SLACK_BYTES));
        } catch (OutOfMemoryError none) {
            room = before.capacity() - at - FIXED_BYTES_MOST - SLACK_BYTES;
            return;
        }
        bytes.put(0, before, 0, at);
    }
}
