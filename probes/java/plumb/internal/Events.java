package plumb.internal;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.security.AccessController;
import java.security.PrivilegedActionException;
import java.security.PrivilegedExceptionAction;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * All events of the process, by all that tells them apart: as in C, one of a name that has other fields stands beside the first, since the
 * class that declared that may be gone, and only the collector knows. What was declared stays in native code, for whoever declares it again.
 */
public final class Events {
    private static final Map<Declaration.Shape, Long> ALL = new HashMap<>();
    private static final String PROBLEM = load();

    private Events() {}

    private static String load() {
        try {
            Library.load("plumb.Plumb");
            return null;
        } catch (UnsatisfiedLinkError | RuntimeException problem) {
            return Objects.requireNonNullElse(problem.getMessage(), problem.toString());
        }
    }

    public static String problem() {
        return PROBLEM;
    }

    public static <T> T declare(Class<T> type, MethodHandles.Lookup lookup) {
        final Declaration declaration = read(type);
        try {
            final MethodHandles.Lookup beside = lookup != null ? lookup : lookupIn(type);
            final long event = register(declaration);
            final MethodHandle writer = event == 0 ? null : Emitters.makeWriter(declaration, event);
            final Switch way = new Switch(event, Emitters.handleType(declaration.emit), writer);
            final Object front = Emitters.makeFront(declaration, beside, List.of(way.emit(), way.isOn(), way));
            if (event != 0) way.connect();
            return type.cast(front);
        } catch (IllegalAccessException | LinkageError | SecurityException refused) {
            throw new IllegalArgumentException("plumb: " + type.getName() + " can not be implemented from "
                + (lookup != null ? "this lookup; it takes MethodHandles.lookup() of a class in the interface's package"
                                  : "here; Plumb.event(" + type.getSimpleName() + ".class, MethodHandles.lookup()) can")
                + ": " + refused.getMessage(), refused);
        }
    }

    private static Declaration read(Class<?> type) {
        try {
            return new Declaration(type);
        } catch (LinkageError missing) { // a class that it names, or one that such a class names
            throw new IllegalArgumentException("plumb: " + type.getName() + " can not be read: " + missing, missing);
        }
    }

    /** By plumb.jar's own right, as in Library. */
    @SuppressWarnings("removal")
    private static MethodHandles.Lookup lookupIn(Class<?> type) throws IllegalAccessException {
        try {
            return AccessController.doPrivileged(
                (PrivilegedExceptionAction<MethodHandles.Lookup>) () -> MethodHandles.privateLookupIn(type, MethodHandles.lookup()));
        } catch (PrivilegedActionException refused) {
            throw (IllegalAccessException) refused.getException();
        }
    }

    /** The event's address; 0: it is off for good. */
    private static long register(Declaration declaration) {
        synchronized (ALL) {
            final Long known = ALL.get(declaration.shape);
            if (known != null) return known;
            final long event = PROBLEM == null ? tell(declaration) : 0;
            if (event != 0) ALL.put(declaration.shape, event);
            return event;
        }
    }

    private static long tell(Declaration declaration) {
        final StackWalker.StackFrame caller = StackWalker.getInstance().walk(frames -> frames
            .filter(frame -> !frame.getClassName().startsWith("plumb.internal.") && !frame.getClassName().equals("plumb.Plumb"))
            .findFirst().orElse(null));
        final String file = caller == null || caller.getFileName() == null ? "" : caller.getFileName();
        final int line = caller == null ? 0 : Math.max(caller.getLineNumber(), 0);
        final Memory description = Memory.make(declaration.describedBytes(file));
        if (description == null) return 0;
        try {
            declaration.describe(description.bytes, file, line);
            return Native.declare(description.bytes, description.bytes.position());
        } finally {
            description.free();
        }
    }
}
