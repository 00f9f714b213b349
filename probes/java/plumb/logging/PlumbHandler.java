package plumb.logging;

import java.text.MessageFormat;
import java.util.Date;
import java.util.Locale;
import java.util.logging.ErrorManager;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.SimpleFormatter;
import plumb.internal.LogEvents;

/**
 * Turns records of java.util.logging into events of Plumb: java:severe, warning, info, config, fine, finer and finest, with logger,
 * message, level, thread, class_name and method. While nobody records a level, its records are not formatted: that costs a look at
 * one word of memory. No lock is taken, so that threads do not wait for each other here.
 *
 * <p>In code: {@code Logger.getLogger("").addHandler(new plumb.logging.PlumbHandler())}; or in logging.properties:
 * {@code handlers = java.util.logging.ConsoleHandler, plumb.logging.PlumbHandler}. docs/java-logging.md has more.
 */
public final class PlumbHandler extends Handler {
    private static final Formatter MESSAGES = new SimpleFormatter();
    private static boolean isFormatted;
    private static volatile boolean areNumbersKnown, areDatesKnown;

    /**
     * A handler that takes all levels; what its logger lets through is recorded if somebody asks for it.
     *
     * @throws IllegalStateException libplumb-java.so is not there, or does not load; where a configuration names the handler,
     *     java.util.logging says so, and goes on without it
     */
    public PlumbHandler() {
        LogEvents.load();
        formatOnce();
        setLevel(Level.ALL);
    }

    /**
     * A class that is first needed where the stack is full can not be had any more, by nobody: so what formatting needs is there before. But
     * for what looks at properties that the program may set before it needs it (user.timezone, java.locale.providers): see hasRoomFor().
     */
    private static void formatOnce() {
        if (isFormatted) return;
        isFormatted = true;
        final LogRecord record = new LogRecord(Level.FINEST, "");
        Caller.of(record);
        record.getSourceClassName(); // and what other handlers need
        hasStack(1);
        LogEvents.withStackTrace(new MessageFormat("{0} {1}", Locale.ROOT).format(new Object[] {"", ""}), new Throwable());
        MESSAGES.formatMessage(record);
    }

    /** Numbers and dates are formatted for the first time where that can load what it needs. */
    private static boolean hasRoomFor(Object[] parameters) {
        boolean hasNumber = false, hasDate = false;
        for (int i = 0; parameters != null && i < parameters.length; i++) {
            hasNumber |= parameters[i] instanceof Number;
            hasDate |= parameters[i] instanceof Date;
        }
        if ((!hasNumber || areNumbersKnown) && (!hasDate || areDatesKnown)) return true;
        if (!hasStack(1200)) return false;
        areNumbersKnown |= hasNumber;
        areDatesKnown |= hasDate;
        return true;
    }

    /** Of frames that take some 100 bytes each while they are interpreted. */
    private static boolean hasStack(int frames) {
        try {
            return descend(frames) >= 0;
        } catch (StackOverflowError full) {
            return false;
        }
    }

    private static int descend(int frames) {
        return frames == 0 ? 0 : descend(frames - 1) + 1;
    }

    /** Whether somebody records what is logged at this level just now, for what is expensive to prepare. */
    public static boolean isOn(Level level) {
        return LogEvents.isOn(LogEvents.kindOf(level.intValue()));
    }

    @Override
    public void publish(LogRecord record) {
        if (record == null) return;
        final int kind = LogEvents.kindOf(record.getLevel().intValue());
        if (!LogEvents.isOn(kind)) return;
        try {
            if (!isLoggable(record)) return;
            if (getFormatter() == null && !hasRoomFor(record.getParameters())) {
                LogEvents.lose(kind);
                return;
            }
            final Thread current = Thread.currentThread();
            final String message = messageOf(record);
            final Caller caller = Caller.of(record);
            LogEvents.log(kind, record.getLevel().intValue(), record.getLoggerName(), message,
                record.getLongThreadID() == current.getId() ? current.getName() : "", caller.className, caller.method);
        } catch (Exception problem) { // of a filter, or of what makes the message; an ErrorManager prints the first of its life alone
            LogEvents.lose(kind);
            reportError(null, problem, ErrorManager.FORMAT_FAILURE);
        } catch (ThreadDeath stopped) {
            throw stopped;
        } catch (Throwable none) {
            LogEvents.lose(kind); // the program would not have met it without us; some languages throw what is no Error either
        }
    }

    private String messageOf(LogRecord record) {
        final Formatter formatter = getFormatter();
        if (formatter != null) return formatter.format(record);
        final String message = MESSAGES.formatMessage(record);
        return record.getThrown() == null ? message : LogEvents.withStackTrace(message, record.getThrown());
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
}
