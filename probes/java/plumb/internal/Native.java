package plumb.internal;

import java.nio.ByteBuffer;

/** What events.c does. An event is its address there, which stays as long as the process. */
final class Native {
    /** So many bytes of fields go by arguments alone. */
    static final int FEW_WORDS = 3, MOST_WORDS = 8;

    private Native() {}

    /** The event's address, or 0 if there was no memory. `description`: a direct buffer, as Declaration writes it. */
    static native long declare(ByteBuffer description, int bytes);

    static native boolean isOn(long event);

    static native long addressOf(ByteBuffer direct);

    /** Of malloc(), of which the JVM knows nothing; null: there is none. */
    static native ByteBuffer allocate(int bytes);

    static native void free(long address);

    /** Returns in a moment. */
    static native void rest();

    /** Fields that are of one size always, one behind the other, little-endian. */
    static native void emit3(long event, long word0, long word1, long word2);

    static native void emit8(long event, long word0, long word1, long word2, long word3, long word4, long word5, long word6,
        long word7);

    /** The same in memory, behind which 8 bytes may be written. `isCut`: something was shortened already. */
    static native void emit(long event, long payload, int bytes, boolean isCut);

    /** Counts one as lost: there was no stack for it. 0: none. */
    static native void lose(long event);

    /** A number that is another one whenever events may have been switched. */
    static native int changes();

    /** Returns when it may not be `seen` any more. */
    static native void awaitChange(int seen);
}
