import java.lang.management.ManagementFactory;
import plumb.Event;
import plumb.Plumb;

/** Many threads emit many events; or one does, and says what that allocated. */
public class Many {
    @Event("shop:number")
    interface Number {
        void emit(int thread, long number);
    }

    @Event("shop:order")
    interface Order {
        void emit(int id, String customer, double total, int[] items);
    }

    static final Number NUMBER = Plumb.event(Number.class);
    static final Order ORDER = Plumb.event(Order.class);

    static void many(int threads, int each) throws InterruptedException {
        final Thread[] all = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            final int thread = i;
            all[i] = new Thread(() -> {
                for (int number = 0; number < each; number++) {
                    if (number % 2 == 0)
                        NUMBER.emit(thread, number);
                    else
                        ORDER.emit(thread, "customer " + number, number, new int[] {thread, number});
                }
            });
        }
        for (Thread one : all) one.start();
        for (Thread one : all) one.join();
    }

    /** Java 21 has them, and the compiler of Java 17 does not know them. */
    static void virtual(int threads, int each) throws Exception {
        final var start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        final Thread[] all = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            final int thread = i;
            all[i] = (Thread) start.invoke(null, (Runnable) () -> {
                for (int number = 0; number < each; number++) {
                    ORDER.emit(thread, "customer " + number, number, new int[] {thread, number});
                    if (number % 16 == 0) Thread.yield();
                }
            });
        }
        for (Thread one : all) one.join();
    }

    static final String[] CUSTOMERS = {"Köchin", "bob", "小さい 🙂", "x".repeat(300), null, ""};
    static final int[] ITEMS = {1, 2, 3};

    static void some(int count) {
        for (int i = 0; i < count; i++) {
            NUMBER.emit(i, -i);
            ORDER.emit(i, CUSTOMERS[i % CUSTOMERS.length], i / 3.0, ITEMS);
        }
    }

    /** Of this thread, while it emits as many pairs of events. */
    static long allocatedBy(int count) {
        final var bean = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        final long before = bean.getCurrentThreadAllocatedBytes();
        some(count);
        return bean.getCurrentThreadAllocatedBytes() - before;
    }

    static long leastOf(int rounds, int count) {
        long least = Long.MAX_VALUE;
        for (int i = 0; i < rounds; i++) least = Math.min(least, allocatedBy(count));
        return least;
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("threads")) {
            many(8, Integer.parseInt(words[1]));
        } else if (words[0].equals("virtual")) {
            virtual(200, Integer.parseInt(words[1]));
        } else {
            // In the interpreter, and when all of it is compiled: neither makes an object. (What the JVM does once, it does in some of
            // the rounds.)
            System.out.println(leastOf(10, 100));
            some(100000);
            System.out.println(leastOf(10, 1000));
        }
    }
}
