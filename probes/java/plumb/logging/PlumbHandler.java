package plumb.logging;

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
import java.util.logging.ErrorManager;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.SimpleFormatter;
import plumb.internal.Library;

/**
 * Turns records of java.util.logging into events of Plumb: java:severe, warning, info, config, fine, finer and finest, with logger,
 * message, level, thread, class_name and method. While nobody records a level, its records are not formatted: that costs a look at
 * one word of memory. No lock is taken, so that threads do not wait for each other here.
 *
 * <p>In code: {@code Logger.getLogger("").addHandler(new plumb.logging.PlumbHandler())}; or in logging.properties:
 * {@code handlers = java.util.logging.ConsoleHandler, plumb.logging.PlumbHandler}. docs/java-logging.md has more.
 */
public final class PlumbHandler extends Handler {
    /** From the worst on; the native side numbers them so. */
    private static final Level[] LEVELS = {
        Level.SEVERE, Level.WARNING, Level.INFO, Level.CONFIG, Level.FINE, Level.FINER, Level.FINEST
    };

    private static final VarHandle WORD =
        MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());
    private static final ByteBuffer[] WORDS = new ByteBuffer[LEVELS.length];
    private static final ThreadLocal<Texts> TEXTS = ThreadLocal.withInitial(Texts::new);
    private static final Formatter MESSAGES = new SimpleFormatter();

    static {
        Library.load("plumb.logging.PlumbHandler");
        for (int kind = 0; kind < WORDS.length; kind++) WORDS[kind] = word(kind);
    }

    /** A handler that takes all levels; what its logger lets through is recorded if somebody asks for it. */
    public PlumbHandler() {
        setLevel(Level.ALL);
    }

    /** Whether somebody records what is logged at this level just now, for what is expensive to prepare. */
    public static boolean isOn(Level level) {
        return isOn(kindOf(level.intValue()));
    }

    private static boolean isOn(int kind) {
        return (int) WORD.getOpaque(WORDS[kind], 0) != 0;
    }

    /** By the level at or below its own; what is below FINEST is FINEST. */
    private static int kindOf(int level) {
        int kind = 0;
        while (kind < LEVELS.length - 1 && level < LEVELS[kind].intValue()) kind++;
        return kind;
    }

    @Override
    public void publish(LogRecord record) {
        if (record == null) return;
        final int kind = kindOf(record.getLevel().intValue());
        if (!isOn(kind) || !isLoggable(record)) return;
        try {
            final Texts texts = TEXTS.get();
            texts.clear();
            final int logger = texts.add(record.getLoggerName());
            final int message = texts.add(messageOf(record));
            final Thread current = Thread.currentThread();
            final int thread = texts.add(record.getLongThreadID() == current.getId() ? current.getName() : "");
            final int className = texts.add(record.getSourceClassName());
            final int method = texts.add(record.getSourceMethodName());
            log(kind, record.getLevel().intValue(), texts.bytes, logger, message, thread, className, method);
        } catch (RuntimeException problem) {
            reportError(null, problem, ErrorManager.WRITE_FAILURE);
        }
    }

    private String messageOf(LogRecord record) {
        final Formatter formatter = getFormatter();
        if (formatter != null) return formatter.format(record);
        final String message = MESSAGES.formatMessage(record);
        if (record.getThrown() == null) return message;
        final StringWriter text = new StringWriter();
        text.append(message == null ? "" : message).append('\n');
        record.getThrown().printStackTrace(new PrintWriter(text, true));
        return text.toString().stripTrailing();
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}

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
