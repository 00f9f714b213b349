package plumb.internal;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.MutableCallSite;
import java.lang.ref.WeakReference;
import java.security.AccessController;
import java.security.PrivilegedAction;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/**
 * Where an event's methods lead: to nothing while it is off, which compiled code takes as it is, and to its writer while it is on.
 *
 * <p>The update that switches an event must not call Java, so it wakes a thread, which turns all switches that are to be turned. In
 * between the native side decides: what was switched off is not recorded any more, and what was switched on is recorded from that turn on.
 */
final class Switch {
    private static final List<WeakReference<Switch>> ALL = new ArrayList<>();
    private static boolean isWatching = false;

    private final long event;
    private final MethodHandle writer;
    private final MethodHandle nothing;
    private final MutableCallSite emit;
    private final MutableCallSite isOn = new MutableCallSite(MethodHandles.constant(boolean.class, false));
    private boolean leadsToWriter = false;

    /** `writer`: null where the event is off for good. */
    Switch(long event, MethodType type, MethodHandle writer) {
        this.event = event;
        this.writer = writer;
        nothing = MethodHandles.empty(type);
        emit = new MutableCallSite(nothing);
    }

    MethodHandle emit() {
        return emit.dynamicInvoker();
    }

    MethodHandle isOn() {
        return isOn.dynamicInvoker();
    }

    /** From now on it follows the event, and does so already when this returns. */
    void connect() {
        synchronized (ALL) {
            ALL.add(new WeakReference<>(this));
            final List<MutableCallSite> turned = new ArrayList<>();
            turn(turned);
            publish(turned);
            try {
                if (!isWatching) beginWatching();
            } catch (OutOfMemoryError | SecurityException none) {
                // there may be no more threads, or none for us: the next event tries again
            }
        }
    }

    private void turn(List<MutableCallSite> turned) {
        final boolean wanted = Native.isOn(event);
        if (wanted == leadsToWriter) return;
        final MethodHandle answer = MethodHandles.constant(boolean.class, wanted);
        turned.add(emit);
        turned.add(isOn);
        emit.setTarget(wanted ? writer : nothing);
        isOn.setTarget(answer);
        leadsToWriter = wanted; // last: where there was no memory for all of it, the next change finds that it is to be done
    }

    private static void publish(List<MutableCallSite> turned) {
        if (!turned.isEmpty()) MutableCallSite.syncAll(turned.toArray(new MutableCallSite[0]));
    }

    private static void turnAll() {
        synchronized (ALL) {
            final List<MutableCallSite> turned = new ArrayList<>();
            try {
                for (Iterator<WeakReference<Switch>> each = ALL.iterator(); each.hasNext();) {
                    final Switch known = each.next().get();
                    if (known == null)
                        each.remove(); // its interface is gone
                    else
                        known.turn(turned);
                }
            } finally {
                publish(turned);
            }
        }
    }

    /**
     * A daemon, which keeps neither the program from ending nor the loader of whoever was first from going: a thread remembers whose code
     * has made it, up to what is privileged.
     */
    @SuppressWarnings("removal")
    private static void beginWatching() {
        AccessController.doPrivileged((PrivilegedAction<Void>) () -> {
            ThreadGroup group = Thread.currentThread().getThreadGroup();
            while (group != null && group.getParent() != null) group = group.getParent();
            final Thread thread = new Thread(group, Switch::watch, "plumb-updates", 0, false);
            thread.setDaemon(true);
            thread.setContextClassLoader(null);
            thread.start();
            return null;
        });
        isWatching = true;
    }

    private static void watch() {
        try {
            while (true) {
                final int seen = Native.changes();
                try {
                    turnAll();
                } catch (Throwable none) {
                    // no memory, for the most part: the next change finds what was not turned
                }
                Native.awaitChange(seen);
            }
        } finally { // it was stopped: the next event begins another one
            synchronized (ALL) {
                isWatching = false;
            }
        }
    }
}
