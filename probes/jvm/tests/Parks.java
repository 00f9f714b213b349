import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.concurrent.locks.StampedLock;

/** Waits in java.util.concurrent, in every way a known number of times, and prints how often: tests/integration/test_jvm_parks.py compares. */
public class Parks {
    interface Step {
        void run() throws Exception;
    }

    static final long LIMIT_MS = 200;

    static Thread start(String name, Step step) {
        Thread thread = new Thread(() -> {
            try {
                step.run();
            } catch (Exception e) {
                System.out.println(name + " threw " + e);
            }
        }, name);
        thread.start();
        return thread;
    }

    /** It says so a moment before it sleeps. */
    static void untilParked(Thread thread) throws Exception {
        while (thread.getState() != Thread.State.WAITING && thread.getState() != Thread.State.TIMED_WAITING) Thread.sleep(1);
        Thread.sleep(2);
    }

    /** The main thread holds `held` until another one waits for `wanted`. */
    static void contend(String what, Lock held, Lock wanted, int rounds) throws Exception {
        for (int i = 0; i < rounds; i++) {
            held.lock();
            Thread waiter = start(what + "-" + i, () -> {
                wanted.lock();
                wanted.unlock();
            });
            untilParked(waiter);
            held.unlock();
            waiter.join();
        }
        System.out.println(what + " " + rounds);
    }

    static void timed(int rounds) throws Exception {
        ReentrantLock lock = new ReentrantLock();
        int refused = 0;
        lock.lock();
        for (int i = 0; i < rounds; i++) {
            boolean[] got = new boolean[1];
            start("timed-" + i, () -> got[0] = lock.tryLock(LIMIT_MS, TimeUnit.MILLISECONDS)).join();
            if (!got[0]) refused++;
        }
        lock.unlock();
        System.out.println("timed " + refused);
    }

    static void interrupted() throws Exception {
        ReentrantLock lock = new ReentrantLock();
        lock.lock();
        Thread waiter = start("interrupted", () -> {
            try {
                lock.lockInterruptibly();
            } catch (InterruptedException e) {
                System.out.println("interrupted " + (Thread.currentThread().isInterrupted() ? 0 : 1));
            }
        });
        untilParked(waiter);
        waiter.interrupt();
        waiter.join();
        lock.unlock();
    }

    static void permits(int rounds) throws Exception {
        Semaphore semaphore = new Semaphore(0);
        for (int i = 0; i < rounds; i++) {
            Thread waiter = start("permit-" + i, semaphore::acquire);
            untilParked(waiter);
            semaphore.release();
            waiter.join();
        }
        System.out.println("permits " + rounds);
    }

    static void latches(int rounds) throws Exception {
        for (int i = 0; i < rounds; i++) {
            CountDownLatch latch = new CountDownLatch(1);
            Thread waiter = start("latch-" + i, latch::await);
            untilParked(waiter);
            latch.countDown();
            waiter.join();
        }
        System.out.println("latches " + rounds);
    }

    static void bare(int rounds) throws Exception {
        for (int i = 0; i < rounds; i++) {
            Thread waiter = start("bare-" + i, () -> LockSupport.park());
            untilParked(waiter);
            LockSupport.unpark(waiter);
            waiter.join();
        }
        start("until", () -> LockSupport.parkUntil("a blocker", System.currentTimeMillis() + LIMIT_MS)).join();
        start("over", () -> LockSupport.parkUntil(1)).join();
        start("permitted", () -> {
            LockSupport.unpark(Thread.currentThread());
            LockSupport.park();
        }).join();
        System.out.println("bare " + rounds);
    }

    static void pool(int tasks) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(2, task -> new Thread(task, "pool"));
        int sum = 0;
        for (int i = 0; i < tasks; i++) {
            int number = i;
            sum += pool.submit(() -> {
                Thread.sleep(5);
                return number;
            }).get();
        }
        sum += CompletableFuture.supplyAsync(() -> 1, pool).get();
        pool.shutdown();
        System.out.println("sum " + sum);
    }

    public static void main(String[] arguments) throws Exception {
        ReentrantLock lock = new ReentrantLock(), fair = new ReentrantLock(true);
        ReentrantReadWriteLock shared = new ReentrantReadWriteLock();
        StampedLock stamped = new StampedLock();
        contend("lock", lock, lock, 20);
        contend("fair", fair, fair, 3);
        contend("reader", shared.writeLock(), shared.readLock(), 3);
        contend("writer", shared.readLock(), shared.writeLock(), 3);
        contend("stamped", stamped.asWriteLock(), stamped.asWriteLock(), 3);
        timed(3);
        interrupted();
        permits(5);
        latches(4);
        bare(3);
        pool(10);
        System.exit(7);
    }
}
