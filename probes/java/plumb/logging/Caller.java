package plumb.logging;

import java.lang.StackWalker.StackFrame;
import java.security.AccessController;
import java.security.PrivilegedAction;
import java.util.List;
import java.util.logging.LogRecord;

/**
 * Who logged a record. One that has not been asked yet is not asked: it would look for its caller on the stack and keep it, and a handler
 * behind ours that asks in a thread of its own would print one that it does not find while nothing is recorded. Nor is anything put back
 * in a record, which other threads may have by then. So the stack is walked here, as a LogRecord does it. Parts that are unknown are null.
 */
final class Caller {
    private static final Caller NOBODY = new Caller(null, null);
    private static final StackWalker WALKER = privileged(() -> StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE));
    /** As the JDK reads it: names begin so of what is no caller either. */
    private static final List<String> LEFT_OUT =
        List.of(privileged(() -> System.getProperty("jdk.logger.packages", "")).split(",")).stream().filter(each -> !each.isEmpty()).toList();

    static {
        findFields(LogRecord.class);
    }

    final String className, method;

    private Caller(String className, String method) {
        this.className = className;
        this.method = method;
    }

    /** By plumb.jar's own right, as its library is loaded: who makes a handler need not have what this takes. */
    @SuppressWarnings("removal")
    private static <T> T privileged(PrivilegedAction<T> action) {
        return AccessController.doPrivileged(action);
    }

    /** Behind LogEvents.load(). */
    static Caller of(LogRecord record) {
        return wouldLook(record) ? onStack() : new Caller(record.getSourceClassName(), record.getSourceMethodName());
    }

    private static Caller onStack() {
        return WALKER.walk(frames -> frames.dropWhile(each -> !isLogger(each)).filter(each -> !isLogging(each)).findFirst()
            .map(each -> new Caller(each.getClassName(), each.getMethodName())).orElse(NOBODY));
    }

    private static boolean isLogger(StackFrame frame) {
        return frame.getClassName().equals("java.util.logging.Logger") || frame.getClassName().startsWith("sun.util.logging.PlatformLogger");
    }

    private static boolean isLogging(StackFrame frame) {
        if (System.Logger.class.isAssignableFrom(frame.getDeclaringClass())) return true;
        final String name = frame.getClassName();
        if (name.startsWith("jdk.internal.logger.BootstrapLogger$LogEvent")) return false; // logged late: there is nobody above it
        return name.startsWith("java.util.logging.") || name.startsWith("sun.util.logging.") || name.startsWith("sun.rmi.runtime.Log")
            || name.startsWith("jdk.internal.logger.") || name.startsWith("java.lang.invoke.MethodHandle")
            || name.startsWith("java.security.AccessController") || LEFT_OUT.stream().anyMatch(name::startsWith);
    }

    /** As all natives here: log_record.c. */
    private static native void findFields(Class<?> type);

    /**
     * Whether the record would look for its caller, as LogRecord does, if it was asked. Of a class that answers in its own way this is not
     * known: such a record is asked.
     */
    private static native boolean wouldLook(LogRecord record);
}
