package plumb.internal;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Objects;

/**
 * The events of what logging says, java:severe, warning, info, config, fine, finer and finest, for a handler of whatever framework. A level
 * is a number as java.util.logging has it. No lock is taken, so that threads do not wait for each other here.
 */
public final class LogEvents {
    /** From the worst on, from SEVERE to FINER; the native side numbers them so, and FINEST behind them. */
    private static final int[] LEAST_LEVELS = {1000, 900, 800, 700, 500, 400};

    private static final VarHandle WORD =
        MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());
    private static final ByteBuffer[] WORDS = new ByteBuffer[LEAST_LEVELS.length + 1];
    /** The level, and of five texts the counts. */
    private static final int FIXED_BYTES = 4 + 5 * 2;

    /** Why nothing can be recorded; null: it can. Kept, as a class that could not be initialised says nothing to the next who asks. */
    private static final String PROBLEM = begin();
    private static final boolean IS_THERE = PROBLEM == null;

    private static volatile int uncounted, uncountedKind;

    private LogEvents() {}

    private static String begin() {
        try {
            Library.load("Plumb's logging");
            for (int kind = 0; kind < WORDS.length; kind++) WORDS[kind] = word(kind);
            prepare();
            return null;
        } catch (UnsatisfiedLinkError | OutOfMemoryError | RuntimeException problem) {
            return Objects.requireNonNullElse(problem.getMessage(), problem.toString());
        }
    }

    /** What is first needed where there is no memory, or stack, can not be had then. */
    private static void prepare() {
        Payload.prepare();
        countLoss(0, 0);
        emit(-1, 0, 0, false);
        isWordSet(0);
        Payload.begin(FIXED_BYTES).text(orEmpty(null)).text("\u00e9").i32(0).discard();
    }

    /**
     * Now, and not with the first record.
     *
     * @throws IllegalStateException the native half is not there, or does not load: no Error, at which java.util.logging would not go on
     *     to the other handlers of its configuration
     */
    public static void load() {
        if (PROBLEM != null) throw new IllegalStateException(PROBLEM);
    }

    /** By the level at or below its own; what is below FINEST is FINEST. */
    public static int kindOf(int level) {
        int kind = 0;
        while (kind < LEAST_LEVELS.length && level < LEAST_LEVELS[kind]) kind++;
        return kind;
    }

    /** Whether somebody records it just now: a look at one word of memory. */
    public static boolean isOn(int kind) {
        return IS_THERE && isWordSet(kind);
    }

    private static boolean isWordSet(int kind) {
        return (int) WORD.getOpaque(WORDS[kind], 0) != 0;
    }

    /** Texts that are null are empty. */
    public static void log(int kind, int level, String logger, String message, String thread, String className, String method) {
        if (uncounted != 0) countAll();
        Payload.begin(FIXED_BYTES).text(orEmpty(logger)).text(orEmpty(message)).i32(level).text(orEmpty(thread)).text(orEmpty(className))
            .text(orEmpty(method)).log(kind);
    }

    private static String orEmpty(String text) {
        return text == null ? "" : text;
    }

    /** Counts a record as lost: its message could not be made, or for it there was no memory, or no stack. */
    public static void lose(int kind) {
        try {
            countLoss(kind, 1);
        } catch (StackOverflowError | OutOfMemoryError none) {
            uncountedKind = kind; // not even that can be called: with the next record
            uncounted++;
        }
    }

    private static void countAll() {
        final int count = uncounted;
        uncounted = 0;
        countLoss(uncountedKind, count);
    }

    /** The message, and behind it what was thrown. */
    public static String withStackTrace(String message, Throwable thrown) {
        final StringWriter text = new StringWriter();
        text.append(message == null ? "" : message).append('\n');
        thrown.printStackTrace(new PrintWriter(text, true));
        return text.toString().stripTrailing();
    }

    private static native ByteBuffer word(int kind);

    /** The fields in memory, as Native.emit() takes them. */
    static native void emit(int kind, long payload, int bytes, boolean isCut);

    private static native void countLoss(int kind, int count);
}
