import java.util.concurrent.locks.LockSupport;

/** Parks all the time, called by a method that never returns. */
public class Parked {
    static volatile int passed;

    static void park() {
        LockSupport.parkNanos(200_000);
    }

    static void step() {
        park();
        passed++;
    }

    static void runOn() {
        while (true)
            step();
    }

    public static void main(String[] arguments) {
        System.out.println("ready");
        runOn();
    }
}
