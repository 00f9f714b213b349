/** Runs until its input ends, with two threads that contend; then prints how many rounds each has done. */
public class Serves {
    static final Object lock = new Object();
    static volatile boolean stopped;
    static final long[] rounds = new long[2];

    static void work(int which) {
        while (!stopped) {
            synchronized (lock) {
                rounds[which]++;
                long until = System.nanoTime() + 200_000;
                while (System.nanoTime() < until) { }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[2];
        for (int i = 0; i < threads.length; i++) {
            int which = i;
            threads[i] = new Thread(() -> work(which), "server-" + i);
            threads[i].start();
        }
        System.out.println("ready");
        while (System.in.read() != -1) { }
        stopped = true;
        for (Thread thread : threads) thread.join();
        System.out.println("rounds " + (rounds[0] > 0 && rounds[1] > 0));
    }
}
