package plumb.internal;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * Where the fields of an event are put together: beside the heap, where native code reads them.
 *
 * <p>By malloc(), as the JVM's own direct memory has a limit, which the program may need: where that is used up each attempt to get some
 * takes half a second and full collections.
 *
 * <p>Whoever needs more than a payload has borrows a large one. A few of those are there from the declaration of an event, as even the
 * object of another one may find no room in the heap; what nobody has borrowed yet is addresses and no memory.
 */
final class Memory {
    private static final int LARGE_COUNT = 8;
    /** Two fields of which each is as long as a record, with their counts. What is larger is made and given back each time. */
    private static final int LARGE_BYTES = 2 * (2 + Payload.MOST_BYTES) + Payload.FIXED_BYTES_MOST + Payload.SLACK_BYTES;
    private static final AtomicReferenceArray<Memory> LARGE = new AtomicReferenceArray<>(LARGE_COUNT);

    final ByteBuffer bytes;
    final int capacity;
    final long address;

    private Memory(int capacity) {
        this.capacity = capacity;
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

    static void prepare() {
        for (int i = 0; i < LARGE_COUNT; i++) {
            final Memory made = LARGE.get(i) == null ? make(LARGE_BYTES) : null;
            if (made != null && !LARGE.compareAndSet(i, null, made)) made.free();
        }
    }

    /** Nobody may use it any more. */
    void free() {
        Native.free(address);
    }

    /** Null: there is none. */
    static Memory borrow(int needed) {
        for (int i = 0; i < LARGE_COUNT && needed <= LARGE_BYTES; i++) {
            final Memory kept = LARGE.get(i) == null ? null : LARGE.getAndSet(i, null);
            if (kept != null) return kept;
        }
        final Memory larger = make(Math.max(needed, LARGE_BYTES));
        return larger != null ? larger : make(needed);
    }

    void giveBack() {
        if (capacity == LARGE_BYTES)
            for (int i = 0; i < LARGE_COUNT; i++)
                if (LARGE.get(i) == null && LARGE.compareAndSet(i, null, this)) return;
        free();
    }
}
