import java.util.concurrent.locks.LockSupport;

/** Waits for many objects that it keeps, for each in turn, until its input ends. */
public class Keeps {
    static class Waited {}

    static class Parked {}

    static final int EACH = 300;
    static volatile boolean stopped;

    public static void main(String[] arguments) throws Exception {
        final Waited[] waited = new Waited[EACH];
        final Parked[] parked = new Parked[EACH];
        for (int i = 0; i < EACH; i++) {
            waited[i] = new Waited();
            parked[i] = new Parked();
        }
        long[] rounds = new long[1];
        Thread waits = new Thread(() -> {
            while (!stopped) {
                for (int i = 0; i < EACH; i++) {
                    LockSupport.parkNanos(parked[i], 1);
                    synchronized (waited[i]) {
                        try {
                            waited[i].wait(1);
                        } catch (InterruptedException e) {
                            throw new IllegalStateException(e);
                        }
                    }
                }
                rounds[0]++;
            }
        }, "waits");
        waits.start();
        System.out.println("ready");
        while (System.in.read() != -1) { }
        stopped = true;
        waits.join();
        System.out.println("rounds " + (rounds[0] > 0));
    }
}
