import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;

/** Does what a trace has to tell, and prints how often: tests/integration/test_jvm.py compares. */
public class Deeds {
    static class Lock {}

    static final String[] NAMES = {"plain", "gr\u00f6\u00dfe-\u00df", "\u043f\u043e\u0442\u043e\u043a", "\u7ebf\u7a0b\u4e8c",
        "\u30b9\u30ec\u30c3\u30c9", "\u0646\u0633\u064a\u062c", "\u0924\u093e\u0930", "\ud83d\ude00-\ud835\udd4f", "half-\ud83d",
        "nul\0inside", "x".repeat(5000)};

    static void threads() throws Exception {
        for (String name : NAMES) {
            Thread thread = new Thread(() -> {}, name);
            thread.start();
            thread.join();
        }
        System.out.println("threads " + NAMES.length);
    }

    /** The main thread holds the lock until the other one waits for it. */
    static void contend(int rounds) throws Exception {
        Lock lock = new Lock();
        for (int i = 0; i < rounds; i++) {
            Thread waiter = new Thread(() -> { synchronized (lock) { } }, "waiter-" + i);
            synchronized (lock) {
                waiter.start();
                while (waiter.getState() != Thread.State.BLOCKED) Thread.sleep(1);
                Thread.sleep(20); // it is BLOCKED before the agent is told, who then asks for the lock's owner
            }
            waiter.join();
        }
        System.out.println("contended " + rounds);
    }

    static void waits(int rounds) throws Exception {
        Lock lock = new Lock();
        synchronized (lock) {
            for (int i = 0; i < rounds; i++) lock.wait(2);
        }
        System.out.println("waits " + rounds);
    }

    static void exceptions(int rounds) {
        int caught = 0;
        for (int i = 0; i < rounds; i++) {
            try {
                throw new IllegalStateException("message \u2116" + i);
            } catch (IllegalStateException e) {
                caught++;
            }
        }
        System.out.println("exceptions " + caught);
    }

    static void collections() {
        byte[][] kept = new byte[16][];
        for (int i = 0; i < 400; i++) kept[i % kept.length] = new byte[400_000];
        for (int i = 0; i < 4; i++) System.gc();
        long count = 0;
        List<String> names = new ArrayList<>();
        for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
            count += bean.getCollectionCount();
            names.add(bean.getName());
        }
        System.out.println("collections " + count);
    }

    static int depth(int n) {
        return 1 + depth(n + 1);
    }

    static void overflow() {
        int overflows = 0;
        for (int i = 0; i < 3; i++) {
            try {
                depth(0);
            } catch (StackOverflowError e) {
                overflows++;
            }
        }
        System.out.println("overflows " + overflows);
    }

    public static void main(String[] arguments) throws Exception {
        threads();
        contend(20);
        waits(5);
        exceptions(100);
        overflow();
        collections();
        System.out.println("next thread " + new Thread(() -> {}).getId());
        System.out.println("hash " + new Object().hashCode());
        System.exit(7);
    }
}
