package plumb.internal;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * Where the fields of an event are put together: beside the heap, where native code reads them, and as much in the heap, for texts.
 *
 * <p>By malloc(), as the JVM's own direct memory has a limit, which the program may need: where that is used up each attempt to get some
 * takes half a second and full collections.
 *
 * <p>Whoever needs more than a payload keeps borrows a large one. A few of those are kept for the next one.
 */
final class Memory {
    private static final int LARGE_COUNT = 8;
    /** Two fields of which each is as long as a record. What is larger is given back at once. */
    private static final int LARGE_BYTES_MOST = 2 * Payload.MOST_BYTES;
    private static final AtomicReferenceArray<Memory> LARGE = new AtomicReferenceArray<>(LARGE_COUNT);

    final ByteBuffer bytes;
    final byte[] array; // as large
    final long address;

    /** Native memory comes last: what has none behind it would lose that. */
    private Memory(int capacity) {
        array = new byte[capacity];
        final ByteBuffer from = Native.allocate(capacity);
        if (from == null) throw new OutOfMemoryError();
        bytes = from.order(ByteOrder.LITTLE_ENDIAN);
        address = Native.addressOf(bytes);
    }

    /** Null: there is none. */
    static Memory make(int capacity) {
        try {
            return new Memory(capacity);
        } catch (OutOfMemoryError none) {
            return null;
        }
    }

    int capacity() {
        return array.length;
    }

    /** Nobody may use it any more. */
    void free() {
        Native.free(address);
    }

    /** Null: there is none. */
    static Memory borrow(int needed) {
        for (int i = 0; i < LARGE_COUNT; i++) {
            final Memory kept = LARGE.get(i) == null ? null : LARGE.getAndSet(i, null);
            if (kept == null) continue;
            if (kept.capacity() >= needed) return kept;
            kept.free(); // for a larger one, which is kept then
            break;
        }
        final Memory larger = make(Math.max(needed, Math.min(2 * needed, LARGE_BYTES_MOST)));
        return larger != null ? larger : make(needed);
    }

    void giveBack() {
        if (capacity() <= LARGE_BYTES_MOST)
            for (int i = 0; i < LARGE_COUNT; i++)
                if (LARGE.get(i) == null && LARGE.compareAndSet(i, null, this)) return;
        free();
    }
}
