package plumb;

import java.lang.invoke.MethodHandles;
import plumb.internal.Events;

/**
 * Typed events of Java code.
 *
 * <pre>{@code
 * @Event("shop:order")
 * interface Order {
 *     void emit(int id, String customer, double total);
 * }
 *
 * private static final Order ORDER = Plumb.event(Order.class);
 *
 * ORDER.emit(id, customer, total);
 * }</pre>
 *
 * While nobody records the event, compiled code has nothing of such a line but what its arguments do. While somebody does, it is one
 * native call, and no object is made. docs/java-events.md has more.
 */
public final class Plumb {
    private Plumb() {}

    /**
     * Declares an event, and returns what emits it: to be kept in a {@code static final} field, from which the compiler knows it.
     * Where Plumb is not installed the event is off for good ({@link #problem()} says why).
     *
     * @param type an interface with {@link Event}; its abstract methods are one that returns nothing, whose parameters are the fields,
     *     and, if it likes, {@code boolean isOn()}
     * @throws IllegalArgumentException the declaration is wrong; or the interface is of a module that is not open to plumb.jar, or of
     *     another class loader than plumb.jar: the other method is for those
     */
    public static <T> T event(Class<T> type) {
        return Events.declare(type, null);
    }

    /** The same by {@code MethodHandles.lookup()} of a class in the interface's package, whatever module or loader it is of. */
    public static <T> T event(Class<T> type, MethodHandles.Lookup lookup) {
        return Events.declare(type, java.util.Objects.requireNonNull(lookup, "lookup"));
    }

    /** Null; or why no event of this process can be recorded: the native library is missing, or does not load. */
    public static String problem() {
        return Events.problem();
    }
}
