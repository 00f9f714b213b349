package plumb.logging;

import java.util.Date;
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

    /** A class that is first needed where the stack is full can not be had any more, by nobody: so what formatting needs is there before. */
    private static void formatOnce() {
        if (isFormatted) return;
        isFormatted = true;
        final LogRecord record = new LogRecord(Level.FINEST, "{0} {1}");
        record.setParameters(new Object[] {1.5, new Date(0)});
        Caller.of(record);
        record.getSourceClassName(); // and what other handlers need
        LogEvents.withStackTrace(MESSAGES.formatMessage(record), new Throwable());
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
        } catch (Error none) {
            LogEvents.lose(kind); // the program would not have met it without us
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
