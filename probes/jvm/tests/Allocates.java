import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.LongAdder;

/**
 * Allocates so many objects of each kind in each of some threads, and prints how many of each there are in all; with "serve", round by
 * round until its input ends.
 */
public class Allocates {
    static class Small { int first, second; }
    static class Large { long a, b, c, d, e, f, g, h, i, j, k, l, m, n, o; }
    static class Rare { long only; }

    static final int SMALL = 400_000, LARGE = 80_000, RARE = 4_000, BYTES = 8_000, LONGS = 80, TEXTS = 8_000;
    static volatile boolean stopped;
    static final LongAdder rounds = new LongAdder();

    /** What was made stays reachable for a moment, so that none is optimised away. */
    static class Keeper {
        final Object[] kept = new Object[64];
        int next;
        void keep(Object made) { kept[next++ & 63] = made; }
    }

    static void small(Keeper keeper) { for (int i = 0; i < SMALL; i++) keeper.keep(new Small()); }
    static void large(Keeper keeper) { for (int i = 0; i < LARGE; i++) keeper.keep(new Large()); }
    static void rare(Keeper keeper) { for (int i = 0; i < RARE; i++) keeper.keep(new Rare()); }
    static void bytes(Keeper keeper) { for (int i = 0; i < BYTES; i++) keeper.keep(new byte[1000]); }
    static void longs(Keeper keeper) { for (int i = 0; i < LONGS; i++) keeper.keep(new long[12_500]); }
    static void texts(Keeper keeper) { for (int i = 0; i < TEXTS; i++) keeper.keep(new char[4][100]); }

    static void round(Keeper keeper) {
        small(keeper);
        large(keeper);
        rare(keeper);
        bytes(keeper);
        longs(keeper);
        texts(keeper);
    }

    static void in(int threads, Runnable work) throws InterruptedException {
        Thread[] all = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            all[i] = new Thread(work, "allocates-" + i);
            all[i].start();
        }
        for (Thread each : all) each.join();
    }

    static void serve(int threads) throws Exception {
        Thread reader = new Thread(() -> {
            try {
                System.out.println("ready");
                while (System.in.read() != -1) { }
            } catch (java.io.IOException e) {
                throw new IllegalStateException(e);
            }
            stopped = true;
        }, "reader");
        reader.start();
        in(threads, () -> {
            Keeper keeper = new Keeper();
            while (!stopped) round(keeper);
            rounds.increment();
        });
        reader.join();
        System.out.println("rounds " + (rounds.sum() == threads));
    }

    public static void main(String[] words) throws Exception {
        int threads = Integer.parseInt(words[0]);
        if (words.length > 1) {
            serve(threads);
            return;
        }
        CountDownLatch all = new CountDownLatch(threads); // all allocate at once
        in(threads, () -> {
            all.countDown();
            try {
                all.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            round(new Keeper());
        });
        System.out.println("small " + (long) threads * SMALL);
        System.out.println("large " + (long) threads * LARGE);
        System.out.println("rare " + (long) threads * RARE);
        System.out.println("bytes " + (long) threads * BYTES);
        System.out.println("longs " + (long) threads * LONGS);
        System.out.println("texts " + (long) threads * TEXTS * 4);
        System.exit(7);
    }
}
