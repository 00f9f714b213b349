package plumb.internal;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.charset.CharsetEncoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;

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
    private static final ThreadLocal<Texts> TEXTS = ThreadLocal.withInitial(Texts::new);

    static {
        Library.load("Plumb's logging");
        for (int kind = 0; kind < WORDS.length; kind++) WORDS[kind] = word(kind);
    }

    private LogEvents() {}

    /**
     * Now, and not with the first record.
     *
     * @throws UnsatisfiedLinkError the native half is not there, or does not load
     */
    public static void load() {}

    /** By the level at or below its own; what is below FINEST is FINEST. */
    public static int kindOf(int level) {
        int kind = 0;
        while (kind < LEAST_LEVELS.length && level < LEAST_LEVELS[kind]) kind++;
        return kind;
    }

    /** Whether somebody records it just now: a look at one word of memory. */
    public static boolean isOn(int kind) {
        return (int) WORD.getOpaque(WORDS[kind], 0) != 0;
    }

    /** Texts that are null are empty. */
    public static void log(int kind, int level, String logger, String message, String thread, String className, String method) {
        final Texts texts = TEXTS.get();
        texts.clear();
        final int loggerBytes = texts.add(logger), messageBytes = texts.add(message), threadBytes = texts.add(thread);
        final int classBytes = texts.add(className), methodBytes = texts.add(method);
        log(kind, level, texts.bytes, loggerBytes, messageBytes, threadBytes, classBytes, methodBytes);
    }

    /** The message, and behind it what was thrown. */
    public static String withStackTrace(String message, Throwable thrown) {
        final StringWriter text = new StringWriter();
        text.append(message == null ? "" : message).append('\n');
        thrown.printStackTrace(new PrintWriter(text, true));
        return text.toString().stripTrailing();
    }

    /**
     * One behind the other, in UTF-8, where native code can read them. A record takes up to 64 KiB, and so does each of them: the native
     * side makes the longest shorter.
     */
    private static final class Texts {
        private static final int FEW_BYTES = 4096, MOST_BYTES = 65536;
        private final CharsetEncoder encoder = StandardCharsets.UTF_8.newEncoder()
            .onMalformedInput(CodingErrorAction.REPLACE).onUnmappableCharacter(CodingErrorAction.REPLACE);
        private ByteBuffer bytes = ByteBuffer.allocateDirect(FEW_BYTES);

        void clear() {
            bytes.clear();
        }

        /** How many bytes it takes. What is longer than a record is cut. */
        int add(String text) {
            if (text == null) return 0;
            final int begin = bytes.position();
            final CharBuffer from = CharBuffer.wrap(text);
            encoder.reset();
            bytes.limit(Math.min(bytes.capacity(), begin + MOST_BYTES));
            while (encoder.encode(from, bytes, true).isOverflow() && bytes.position() - begin < MOST_BYTES - 4) {
                grow();
                bytes.limit(Math.min(bytes.capacity(), begin + MOST_BYTES));
            }
            bytes.limit(bytes.capacity());
            return bytes.position() - begin;
        }

        private void grow() {
            final ByteBuffer larger = ByteBuffer.allocateDirect(Math.min(bytes.capacity() * 4, bytes.capacity() + MOST_BYTES));
            bytes.flip();
            larger.put(bytes);
            bytes = larger;
        }
    }

    private static native ByteBuffer word(int kind);

    private static native void log(int kind, int level, ByteBuffer texts, int logger, int message, int thread, int className,
        int method);
}
