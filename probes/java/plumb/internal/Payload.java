package plumb.internal;

import java.lang.ref.WeakReference;
import java.security.AccessController;
import java.security.PrivilegedAction;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongFieldUpdater;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * The fields of an event on their way into native code, for events that have some of variable length: as they lie in a record.
 *
 * <p>Emitting makes no object: a payload is taken from a pool that all threads share, for no longer than an event. Each thread begins to
 * look at a place of its own, so that threads seldom meet there, and what is kept depends neither on how many there are nor on what they
 * have ever emitted. A payload stays in its place and knows who holds it: so one whose thread did not come to the end of emit(), by a
 * stack overflow or by Thread.stop(), is not lost. That thread takes it again, and others do when it has ended.
 *
 * <p>Nor does it take memory of the heap, but for a payload where more threads emit at once than ever before: a JVM may be told to end when
 * its heap is used up, and does that before anybody could catch what is thrown.
 *
 * <p>All fields together may be larger than a record, each field by itself not: the native side shortens the longest, and counts that.
 */
final class Payload {
    /** PLUMB_RECORD_MAX_BYTES without the record's header. */
    static final int MOST_BYTES = 65528 - 16;
    /** Of up to 32 fields that each are as large. */
    private static final int ALL_BYTES_MOST = 32 * MOST_BYTES;

    /** What a payload has for itself; a page that no event has come to is none yet. */
    private static final int OWN_BYTES = 16384;
    /** Of a text that are put together at a time. */
    private static final int PIECE_BYTES = 4096;
    /** All that fields of one size may take, and the counts of the others; and what native code writes behind the end. */
    static final int FIXED_BYTES_MOST = 32 * 8, SLACK_BYTES = 16;

    /**
     * A thread that may hold one: its number, which is nobody else's, also when it has ended, with the place where it looks first; and a
     * reference to it. Of the JDK's classes alone: a thread keeps that for as long as it lives, and our loader may be about to go.
     */
    private static final ThreadLocal<Object[]> HOLDER = ThreadLocal.withInitial(() -> newHolder(Thread.currentThread()));
    private static final AtomicLong COUNT = new AtomicLong();
    /** All threads for which there was no memory for one of their own. */
    private static final Object[] SOMEBODY = newHolder(null);
    private static final long NOBODY = 0;

    private static final int PLACES = 64, PLACES_TRIED = 8;
    private static final AtomicReferenceArray<Payload> POOL = new AtomicReferenceArray<>(PLACES);
    private static final AtomicLongFieldUpdater<Payload> HELD_BY = AtomicLongFieldUpdater.newUpdater(Payload.class, "heldBy");

    /** Where there was no memory, asking again may have the JVM collect: not before as much time. */
    private static final long RETRY_NS = 100_000_000;
    private static volatile long failedAt_ns = System.nanoTime() - RETRY_NS;
    private static volatile boolean holderFailed; // at the time below
    private static volatile long holderFailedAt_ns;

    /** Java 17 compiles calls of ByteBuffer's into code, and not into calls, if the class of a parameter that is null there is loaded. */
    static {
        loadScope();
    }

    private volatile long heldBy = NOBODY; // a holder's number
    private Object[] holder; // who held it last, and was not SOMEBODY
    private final byte[] piece = new byte[PIECE_BYTES]; // first: native memory that has no payload would be lost
    private final Memory own = Memory.make(OWN_BYTES);
    private Memory memory = own; // or a larger one, borrowed
    private boolean isInPool = true;
    private int at;
    private int most; // bytes of a field that varies
    private int room; // of all of them
    private int read; // chars of a text
    private boolean isCut;
    /** So that what two threads write is never in one cache line. */
    @SuppressWarnings("unused")
    private long pad0, pad1, pad2, pad3, pad4, pad5, pad6, pad7, pad8, pad9;

    private Payload() {}

    @SuppressWarnings("removal")
    private static void loadScope() {
        AccessController.doPrivileged((PrivilegedAction<Void>) () -> {
            try {
                Class.forName("jdk.internal.misc.ScopedMemoryAccess$Scope", false, null);
            } catch (ClassNotFoundException | LinkageError | SecurityException other) {
                // of another Java, which has none; or plumb.jar may not
            }
            return null;
        });
    }

    /**
     * To be called when an event is declared: from then on each thread finds one among the places where it looks, or waits for one where
     * there is no memory for another one, and all that emitting needs is initialised.
     */
    static void prepare() {
        for (int place = 0; place < PLACES; place += PLACES_TRIED) {
            final Payload made = POOL.get(place) == null ? make() : null;
            if (made != null && !POOL.compareAndSet(place, null, made)) made.own.free();
        }
        Memory.prepare();
        final Payload payload = take(holder());
        // What is first called, the JVM looks up with memory of the heap.
        if (payload != null) payload.start(0).text("\u00e9".repeat(OWN_BYTES / 3)).discard();
        Native.rest();
        Native.free(0);
        Native.lose(0);
    }

    private static Object[] newHolder(Thread thread) {
        final long number = COUNT.incrementAndGet();
        return new Object[] {new long[] {number, number}, new WeakReference<>(thread)};
    }

    private static long numberOf(Object[] holder) {
        return ((long[]) holder[0])[0];
    }

    private static int placeOf(Object[] taker, int step) {
        return (int) ((long[]) taker[0])[1] + step & PLACES - 1;
    }

    /** Where there was one, there will be. */
    private static void beginAt(Object[] taker, int place) {
        ((long[]) taker[0])[1] = place;
    }

    private static boolean isGone(Object[] holder) {
        final Thread thread = (Thread) ((WeakReference<?>) holder[1]).get();
        return thread == null || !thread.isAlive();
    }

    /** For an event whose fields take so many bytes at least. Ends with emit() or log(). */
    static Payload begin(int fixedBytes) {
        final Object[] taker = holder();
        Payload payload = take(taker);
        if (payload == null) payload = waitForOne(taker);
        return payload.start(fixedBytes);
    }

    private Payload start(int fixedBytes) {
        at = 0;
        most = MOST_BYTES - fixedBytes;
        room = ALL_BYTES_MOST;
        isCut = false;
        return this;
    }

    private static Object[] holder() {
        if (holderFailed && System.nanoTime() - holderFailedAt_ns < RETRY_NS) return SOMEBODY;
        try {
            return HOLDER.get();
        } catch (OutOfMemoryError none) {
            holderFailedAt_ns = System.nanoTime();
            holderFailed = true;
            return SOMEBODY;
        }
    }

    /** Null: there is no memory. */
    private static Payload take(Object[] taker) {
        final Payload usual = POOL.get(placeOf(taker, 0));
        return usual != null && usual.isTakenBy(taker) ? usual : takeAnother(taker);
    }

    private static Payload takeAnother(Object[] taker) {
        int empty = -1;
        for (int step = 0; step < PLACES_TRIED; step++) {
            final int place = placeOf(taker, step);
            final Payload found = POOL.get(place);
            if (found != null && found.isTakenBy(taker)) {
                beginAt(taker, place);
                return found;
            }
            if (found == null && empty < 0) empty = place;
        }
        return makeFor(taker, empty);
    }

    private boolean isTakenBy(Object[] taker) {
        if (!HELD_BY.compareAndSet(this, NOBODY, numberOf(taker)) && !isLeftTo(taker)) return false;
        if (holder != taker && taker != SOMEBODY) holder = taker;
        return true;
    }

    /** It was not put back: by the same thread, or one that has ended since. */
    private boolean isLeftTo(Object[] taker) {
        final long number = heldBy;
        if (number == numberOf(taker) && taker != SOMEBODY) return true;
        final Object[] last = holder; // another one, if it has just been taken
        return last != null && numberOf(last) == number && isGone(last) && HELD_BY.compareAndSet(this, number, numberOf(taker));
    }

    /** `empty`: a place that had none; or -1, then it is for this event alone. */
    private static Payload makeFor(Object[] taker, int empty) {
        if (System.nanoTime() - failedAt_ns < RETRY_NS) return null;
        final Payload made = make();
        if (made == null) {
            failedAt_ns = System.nanoTime();
            return null;
        }
        made.isTakenBy(taker);
        made.isInPool = empty >= 0 && POOL.compareAndSet(empty, null, made);
        if (made.isInPool) beginAt(taker, empty);
        return made;
    }

    /** Null: there is no memory. */
    private static Payload make() {
        try {
            final Payload made = new Payload();
            return made.own == null ? null : made;
        } catch (OutOfMemoryError none) {
            return null;
        }
    }

    /** None is held for longer than an event; and where one is, by a thread that is suspended, others wait no longer than there is no memory. */
    private static Payload waitForOne(Object[] taker) {
        while (true) {
            for (int step = 0; step < PLACES; step++) {
                final Payload found = POOL.get(placeOf(taker, step));
                if (found != null && found.isTakenBy(taker)) return found;
            }
            final Payload made = makeFor(taker, -1);
            if (made != null) return made;
            Native.rest();
        }
    }

    void emit(long event) {
        Native.emit(event, memory.address, at, isCut);
        release();
    }

    /** The same as an event of logging. */
    void log(int kind) {
        LogEvents.emit(kind, memory.address, at, isCut);
        release();
    }

    /** In place of emit(). */
    void discard() {
        release();
    }

    private void release() {
        if (memory != own) giveBack();
        if (isInPool)
            HELD_BY.lazySet(this, NOBODY);
        else
            own.free();
    }

    private void giveBack() {
        final Memory borrowed = memory;
        memory = own; // first: a thread that is stopped in between loses it, and nobody has it twice
        borrowed.giveBack();
    }

    Payload i8(int value) {
        memory.bytes.put(at, (byte) value);
        at += 1;
        return this;
    }

    Payload i16(int value) {
        memory.bytes.putShort(at, (short) value);
        at += 2;
        return this;
    }

    Payload i32(int value) {
        memory.bytes.putInt(at, value);
        at += 4;
        return this;
    }

    Payload i64(long value) {
        memory.bytes.putLong(at, value);
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
        if (chars <= PIECE_BYTES && chars <= fits) {
            known.getBytes(0, chars, piece, 0);
            if (isAscii(known))
                memory.bytes.put(at + 2, piece, 0, chars);
            else
                used = encode(known, fits);
        } else {
            used = encode(known, fits);
        }
        memory.bytes.putShort(at, (short) used);
        at += 2 + used;
        room -= used;
        return this;
    }

    private static boolean isAscii(String text) {
        int bits = 0;
        for (int i = 0; i < text.length(); i++) bits |= text.charAt(i);
        return bits < 0x80;
    }

    /** What fits of any text, piece by piece, so that a long one needs no longer array; how many bytes that are. */
    private int encode(String text, int fits) {
        boolean isAscii = text.length() > PIECE_BYTES; // so far; of a shorter one text() has seen that it is not
        int used = 0;
        for (read = 0; read < text.length();) {
            int more = isAscii ? copyPiece(text, fits - used) : 0;
            isAscii = more != 0;
            if (!isAscii) more = encodePiece(text, fits - used);
            memory.bytes.put(at + 2 + used, piece, 0, more);
            used += more;
        }
        return used;
    }

    /** 0: it is not ASCII, or does not fit. */
    @SuppressWarnings("deprecation")
    private int copyPiece(String text, int fits) {
        final int begin = read;
        final int end = Math.min(text.length(), begin + PIECE_BYTES);
        if (end - begin > fits) return 0;
        text.getBytes(begin, end, piece, 0);
        int bits = 0;
        for (int i = begin; i < end; i++) bits |= text.charAt(i);
        if (bits >= 0x80) return 0;
        read = end;
        return end - begin;
    }

    private int encodePiece(String text, int fits) {
        final byte[] to = piece;
        final int limit = Math.min(fits, PIECE_BYTES);
        int used = 0;
        int i = read;
        for (; i < text.length(); i++) {
            final char c = text.charAt(i);
            final boolean isPair = Character.isHighSurrogate(c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1));
            final boolean isHalf = !isPair && Character.isSurrogate(c);
            final int size = c < 0x80 || isHalf ? 1 : c < 0x800 ? 2 : isPair ? 4 : 3;
            if (size > limit - used) break;
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
        read = i;
        if (i < text.length() && limit == fits) {
            isCut = true;
            read = text.length();
        }
        return used;
    }

    Payload bytes(byte[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 1);
        if (count > 0) memory.bytes.put(at, values, 0, count);
        at += count;
        return this;
    }

    Payload booleans(boolean[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 1);
        for (int i = 0; i < count; i++) memory.bytes.put(at + i, (byte) (values[i] ? 1 : 0));
        at += count;
        return this;
    }

    Payload shorts(short[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 2);
        for (int i = 0; i < count; i++) memory.bytes.putShort(at + 2 * i, values[i]);
        at += 2 * count;
        return this;
    }

    Payload chars(char[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 2);
        for (int i = 0; i < count; i++) memory.bytes.putChar(at + 2 * i, values[i]);
        at += 2 * count;
        return this;
    }

    Payload ints(int[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 4);
        for (int i = 0; i < count; i++) memory.bytes.putInt(at + 4 * i, values[i]);
        at += 4 * count;
        return this;
    }

    Payload longs(long[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 8);
        for (int i = 0; i < count; i++) memory.bytes.putLong(at + 8 * i, values[i]);
        at += 8 * count;
        return this;
    }

    Payload floats(float[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 4);
        for (int i = 0; i < count; i++) memory.bytes.putInt(at + 4 * i, Float.floatToRawIntBits(values[i]));
        at += 4 * count;
        return this;
    }

    Payload doubles(double[] values) {
        final int count = beginSequence(values == null ? 0 : values.length, 8);
        for (int i = 0; i < count; i++) memory.bytes.putLong(at + 8 * i, Double.doubleToRawLongBits(values[i]));
        at += 8 * count;
        return this;
    }

    /** How many of the elements there is room for: they are to be written where `at` is then. */
    private int beginSequence(int count, int size) {
        final int fits = Math.min(count, reserve((long) count * size) / size);
        if (fits < count) isCut = true;
        memory.bytes.putShort(at, (short) fits);
        at += 2;
        room -= fits * size;
        return fits;
    }

    /** Room for so many bytes, or for as many as a field may have, and for all fields of one size; which there is. */
    private int reserve(long more) {
        final long needed = at + Math.min(more, Math.min(most, room)) + FIXED_BYTES_MOST + SLACK_BYTES;
        if (needed > memory.capacity) grow((int) needed);
        return Math.min(most, room);
    }

    /** Where there is no memory, fields are cut to what there is. */
    private void grow(int needed) {
        final Memory before = memory;
        final Memory larger = Memory.borrow(needed);
        if (larger == null) {
            room = Math.max(0, before.capacity - at - FIXED_BYTES_MOST - SLACK_BYTES);
            return;
        }
        larger.bytes.put(0, before.bytes, 0, at);
        memory = larger;
        if (before != own) before.giveBack();
    }
}
