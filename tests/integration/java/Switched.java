import java.util.Scanner;
import java.util.concurrent.locks.LockSupport;
import plumb.Event;
import plumb.Plumb;

/** Does what the lines of its input say, and says when that is done. */
public class Switched {
    @Event("shop:first")
    interface First {
        void emit(int number);
        boolean isOn();
    }

    @Event("shop:second")
    interface Second {
        void emit(int number, String text);
        boolean isOn();
    }

    static final First FIRST = Plumb.event(First.class);
    static final Second SECOND = Plumb.event(Second.class);

    static void emit(int from, int to) {
        for (int number = from; number < to; number++) {
            FIRST.emit(number);
            if (SECOND.isOn()) SECOND.emit(number, "text");
        }
    }

    /** Whether both are what is expected within a while. */
    static String await(boolean first, boolean second) {
        final long begin = System.nanoTime();
        while (FIRST.isOn() != first || SECOND.isOn() != second) {
            if (System.nanoTime() - begin > 60_000_000_000L) return "not " + first + " " + second;
            LockSupport.parkNanos(100_000);
        }
        return "done";
    }

    public static void main(String[] arguments) throws Exception {
        final Scanner input = new Scanner(System.in);
        System.out.println("ready " + FIRST.isOn() + " " + SECOND.isOn());
        while (input.hasNext()) {
            final String what = input.next();
            final String answer;
            switch (what) {
                case "emit":
                    emit(input.nextInt(), input.nextInt());
                    answer = "done";
                    break;
                case "await":
                    answer = await(input.nextBoolean(), input.nextBoolean());
                    break;
                case "threads":
                    answer = Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().equals("plumb-updates"))
                        .map(thread -> thread.getName() + " " + thread.isDaemon()).toList().toString();
                    break;
                default:
                    throw new IllegalArgumentException(what);
            }
            System.out.println(answer);
        }
    }
}
