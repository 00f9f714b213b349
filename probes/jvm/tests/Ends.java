import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/** Ends after so many milliseconds by System.exit(3), Runtime.halt(3) or the end of main, with threads in the middle of everything. */
public class Ends {
    static final Object lock = new Object();
    static final ReentrantLock parking = new ReentrantLock();
    static volatile Object kept;

    static void work() {
        while (true) {
            synchronized (lock) {
                kept = new byte[ThreadLocalRandom.current().nextInt(100_000)];
            }
            try {
                throw new RuntimeException("of " + Thread.currentThread().getName());
            } catch (RuntimeException e) {
                kept = e;
            }
            parking.lock();
            LockSupport.parkNanos(parking, 1000);
            parking.unlock();
            Thread shortLived = new Thread(() -> {});
            shortLived.setDaemon(true);
            shortLived.start();
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 6; i++) {
            Thread thread = new Thread(Ends::work, "worker-" + i);
            thread.setDaemon(true);
            thread.start();
        }
        Thread parked = new Thread(() -> {
            while (true) LockSupport.park();
        }, "parked");
        parked.setDaemon(true);
        parked.start();
        Thread.sleep(Integer.parseInt(arguments[1]));
        if (arguments[0].equals("exit")) System.exit(3);
        if (arguments[0].equals("halt")) Runtime.getRuntime().halt(3);
    }
}
