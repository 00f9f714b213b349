import java.util.concurrent.locks.ReentrantLock;

/** Threads that change their names whenever they have what the others wait for, as pools do for each request. Many end behind it. */
public class Renamed {
    static final Object monitor = new Object();
    static final ReentrantLock lock = new ReentrantLock();

    static void work(String who, int rounds) {
        for (int i = 0; i < rounds; i++) {
            synchronized (monitor) {
                hold(who + "-monitor-" + i);
            }
            lock.lock();
            try {
                hold(who + "-lock-" + i);
            } finally {
                lock.unlock();
            }
        }
    }

    static void hold(String name) {
        Thread.currentThread().setName(name);
        try {
            Thread.sleep(2);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Thread[] all = new Thread[124];
        for (int i = 0; i < all.length; i++) {
            String who = "t" + i;
            int rounds = i < 4 ? 60 : 1;
            all[i] = new Thread(() -> work(who, rounds), who);
            all[i].start();
            if (i >= 8) all[i - 4].join();
        }
        for (Thread each : all) each.join();
    }
}
