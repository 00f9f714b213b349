import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.logging.Level;
import java.util.logging.Logger;
import plumb.Event;
import plumb.Plumb;
import plumb.logging.PlumbHandler;

/** Emits and logs where memory, direct memory or stack is used up, and says what that threw; or from many threads, and says what they keep. */
public class Short {
    @Event("shop:said")
    interface Said {
        void emit(int number, String text);
    }

    static final Said SAID = Plumb.event(Said.class);
    static final Logger LOG = Logger.getLogger("shop");
    static final List<Object> KEPT = new ArrayList<>(100000);
    static Throwable thrown;

    static void useUpDirectMemory() {
        for (int size = 1 << 20; size >= 16; size >>= 4)
            try {
                while (true) KEPT.add(ByteBuffer.allocateDirect(size));
            } catch (OutOfMemoryError none) {
                // of that size
            }
    }

    static void useUpHeap() {
        for (int size = 1 << 20; size >= 16; size >>= 4)
            try {
                while (true) KEPT.add(new byte[size]);
            } catch (OutOfMemoryError none) {
                // of that size
            }
    }

    /** By its own measure, as a cache does: nothing is refused, and some room stays, but none for as long a text again. */
    static void fillHeap() {
        final Runtime runtime = Runtime.getRuntime();
        while (true) {
            long free = runtime.maxMemory() - runtime.totalMemory() + runtime.freeMemory();
            if (free < 400_000) {
                System.gc();
                free = runtime.maxMemory() - runtime.totalMemory() + runtime.freeMemory();
                if (free < 90_000) return;
            }
            KEPT.add(new byte[free > 600_000 ? 4000 : 500]);
        }
    }

    static void attempt(Runnable what) {
        try {
            what.run();
        } catch (Throwable problem) {
            if (thrown == null) thrown = problem;
        }
    }

    static void inThread(Runnable what) throws InterruptedException {
        final Thread thread = new Thread(() -> attempt(what));
        thread.start();
        thread.join();
    }

    static void withoutDirectMemory(boolean logs) throws InterruptedException {
        final String text = "x".repeat(20000);
        useUpDirectMemory();
        final long begin = System.nanoTime();
        for (int i = 0; i < 10; i++) {
            final int number = i;
            final String said = number % 2 == 0 ? "short" : text;
            final Runnable say = () -> {
                if (logs) LOG.info(said); else SAID.emit(number, said);
            };
            if (number == 0)
                attempt(say); // the first of all
            else
                inThread(say);
        }
        final long ms = (System.nanoTime() - begin) / 1000000;
        System.out.println(thrown + (ms < 3000 ? "" : " took " + ms + " ms"));
    }

    static void nearlyWithoutHeap(boolean logs) {
        final String text = "x".repeat(30000);
        attempt(() -> {
            if (logs) LOG.info("short"); else SAID.emit(0, "short");
        });
        fillHeap();
        for (int i = 1; i < 20; i++) {
            if (logs) LOG.info(text); else SAID.emit(i, text);
        }
        KEPT.clear();
        System.out.println(thrown);
    }

    static void withoutHeap() {
        final String text = "x".repeat(20000);
        SAID.emit(0, "short"); // for which the JVM links the call
        useUpHeap();
        for (int i = 1; i < 100; i++) {
            try {
                SAID.emit(i, i % 2 == 0 ? "short" : text);
            } catch (Throwable problem) {
                thrown = problem;
            }
        }
        KEPT.clear();
        System.out.println(thrown);
    }

    /** For a message that can not be made. */
    static class Told {
        final boolean isDeep;

        Told(boolean isDeep) {
            this.isDeep = isDeep;
        }

        public String toString() {
            return isDeep ? new Told(true) + "." : String.valueOf(new long[Integer.MAX_VALUE].length);
        }
    }

    static void withoutMessage() {
        for (boolean isDeep : new boolean[] {false, true, true}) attempt(() -> LOG.log(Level.INFO, "{0}", new Told(isDeep)));
        attempt(() -> LOG.info("said"));
        System.out.println(thrown);
    }

    static long residentBytes() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status")))
            if (line.startsWith("VmRSS:")) return 1024 * Long.parseLong(line.replaceAll("[^0-9]", ""));
        return 0;
    }

    /** Which are there at once, and each say something long. */
    static void manyThreads(int count, String text, boolean logs) throws InterruptedException {
        final CountDownLatch said = new CountDownLatch(count), end = new CountDownLatch(1);
        final Thread[] threads = new Thread[count];
        for (int i = 0; i < count; i++) {
            final int number = i;
            threads[i] = new Thread(() -> {
                attempt(() -> {
                    if (logs) LOG.info(text); else SAID.emit(number, text);
                });
                said.countDown();
                try {
                    end.await();
                } catch (InterruptedException never) {
                    thrown = never;
                }
            });
            threads[i].start();
        }
        said.await();
        System.gc();
        final Runtime runtime = Runtime.getRuntime();
        final long heap = runtime.totalMemory() - runtime.freeMemory();
        long direct = 0;
        for (BufferPoolMXBean pool : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class)) direct += pool.getMemoryUsed();
        System.out.print((heap >> 20) + " " + (direct >> 20) + " ");
        end.countDown();
        for (Thread thread : threads) thread.join();
    }

    /** Megabytes of the heap and of direct memory while they are there, and how many more the process has from round to round. */
    static void rounds(boolean logs) throws Exception {
        final String text = "x".repeat(60000);
        for (int i = 0; i < 2; i++) manyThreads(1000, text, logs);
        final long before = residentBytes();
        for (int i = 0; i < 2; i++) manyThreads(1000, text, logs);
        System.out.println((residentBytes() - before >> 20) + " " + thrown);
    }

    public static void main(String[] words) throws Exception {
        LOG.setUseParentHandlers(false);
        LOG.addHandler(new PlumbHandler());
        final boolean logs = words.length > 1;
        switch (words[0]) {
            case "direct" -> withoutDirectMemory(logs);
            case "heap" -> withoutHeap();
            case "nearly" -> nearlyWithoutHeap(logs);
            case "message" -> withoutMessage();
            default -> rounds(logs);
        }
    }
}
