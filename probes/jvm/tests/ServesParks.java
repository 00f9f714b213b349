import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Runs until its input ends, with threads that wait for each other in java.util.concurrent all the time, and others that only wait;
 * then prints whether all that they counted fits together.
 */
public class ServesParks {
    static volatile boolean stopped;
    static final ReentrantLock lock = new ReentrantLock();
    static final Semaphore permits = new Semaphore(2);
    static long locked, handed, taken, interrupts;
    static volatile long caught;
    static final long[] own = new long[4];

    static void contend(int which) {
        while (!stopped) {
            lock.lock();
            try {
                locked++;
                own[which]++;
                for (long until = System.nanoTime() + 100_000; System.nanoTime() < until; ) { }
            } finally {
                lock.unlock();
            }
            permits.acquireUninterruptibly();
            LockSupport.parkNanos(permits, 50_000);
            permits.release();
        }
    }

    static void hand(ArrayBlockingQueue<Long> queue, ExecutorService pool) throws Exception {
        while (!stopped) {
            queue.put(handed++);
            CompletableFuture.supplyAsync(() -> 1, pool).get();
            pool.submit(() -> { }).get();
            LockSupport.parkNanos(200_000);
        }
        queue.put(-1L);
    }

    static void take(ArrayBlockingQueue<Long> queue) throws Exception {
        while (queue.take() >= 0) taken++;
    }

    static void beInterrupted() {
        CountDownLatch never = new CountDownLatch(1);
        while (!stopped) {
            try {
                never.await(1, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                caught++;
            }
        }
    }

    static Thread start(String name, ThreadStart body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Exception e) {
                e.printStackTrace();
            }
        }, name);
        thread.start();
        return thread;
    }

    interface ThreadStart {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        ArrayBlockingQueue<Long> queue = new ArrayBlockingQueue<>(2);
        ExecutorService pool = Executors.newFixedThreadPool(2);
        Thread[] threads = new Thread[own.length + 2];
        for (int i = 0; i < own.length; i++) {
            int which = i;
            threads[i] = start("contends-" + i, () -> contend(which));
        }
        threads[own.length] = start("hands", () -> hand(queue, pool));
        threads[own.length + 1] = start("takes", () -> take(queue));
        Thread sleeper = start("interrupted", ServesParks::beInterrupted);
        Thread interrupter = start("interrupts", () -> {
            while (!stopped) {
                long before = caught;
                sleeper.interrupt();
                interrupts++;
                while (caught == before && sleeper.isAlive()) Thread.sleep(1);
            }
        });
        Thread waits = start("waits", () -> LockSupport.park(lock));
        System.out.println("ready");
        while (System.in.read() != -1) { }
        stopped = true;
        for (Thread thread : threads) thread.join();
        interrupter.join();
        sleeper.join();
        while (waits.isAlive()) {
            LockSupport.unpark(waits);
            Thread.sleep(1);
        }
        pool.shutdown();
        long sum = 0;
        for (long each : own) sum += each;
        System.out.println("rounds " + (sum == locked && locked > 0 && handed == taken && caught == interrupts && permits.availablePermits() == 2));
    }
}
