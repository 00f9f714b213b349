import java.util.concurrent.locks.LockSupport;

/**
 * Waits in each way for 400 ms, over and over, until its input ends: whoever begins to record finds all of it begun. Another thread begins
 * threads all the time, so that some begin just then.
 */
public class Waits {
    static volatile boolean isOver;

    static void slow() throws InterruptedException {
        Thread.sleep(400);
    }

    static Thread begin(String name, Body body) {
        Thread thread = new Thread(() -> {
            try {
                while (!isOver) {
                    body.run();
                }
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }, name);
        thread.start();
        return thread;
    }

    interface Body {
        void run() throws InterruptedException;
    }

    public static void main(String[] words) throws Exception {
        final Object waited = new Object();
        final Object held = new Object();
        Thread[] threads = {
            begin("waiter", () -> {
                synchronized (waited) {
                    waited.wait(400);
                }
            }),
            begin("parker", () -> LockSupport.parkNanos(waited, 400_000_000L)),
            begin("caller", Waits::slow),
            begin("holder", () -> {
                synchronized (held) {
                    Thread.sleep(400);
                }
                Thread.sleep(5);
            }),
            begin("beginner", () -> {
                Thread short_one = new Thread(() -> { }, "short");
                short_one.start();
                while (short_one.isAlive()) { // join() would be a wait for a monitor
                    Thread.sleep(1);
                }
            }),
            begin("entering", () -> {
                synchronized (held) {
                    Thread.sleep(1);
                }
            }),
        };
        System.out.println("ready");
        while (System.in.read() >= 0) {
        }
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("rounds true");
    }
}
