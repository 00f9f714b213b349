import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import jdk.jfr.Recording;
import jdk.jfr.StackTrace;
import plumb.Event;
import plumb.Plumb;

/**
 * What an event of Java code costs, beside a custom event of the JVM's own flight recorder and beside System.nanoTime(): all take turns, a
 * chunk of each, so that whatever disturbs one disturbs all. Prints one JSON object of figures in nanoseconds.
 *
 * <p>Run by bench/java_events.py, which has a session record bench:number and bench:name.
 */
public class JavaCosts {
    static final int CHUNK = 10000;
    static final int WARM_UP_CHUNKS = 300;
    static final String NAME = "/api/orders/new"; // 15 bytes

    @Event("bench:number")
    interface Number {
        void emit(long number);
        boolean isOn();
    }

    @Event("bench:name")
    interface Name {
        void emit(String name, long number);
    }

    @Event("unwanted:number")
    interface Unwanted {
        void emit(long number);
        boolean isOn();
    }

    static final Number NUMBER = Plumb.event(Number.class);
    static final Name NAMED = Plumb.event(Name.class);
    static final Unwanted UNWANTED = Plumb.event(Unwanted.class);

    @StackTrace(false)
    static class JfrNumber extends jdk.jfr.Event {
        long number;
    }

    @StackTrace(false)
    static class JfrName extends jdk.jfr.Event {
        String name;
        long number;
    }

    static class JfrStack extends jdk.jfr.Event {
        long number;
    }

    static class JfrUnwanted extends jdk.jfr.Event {
        long number;
    }

    interface Case {
        /** Something that depends on each of the turns, so that none is left out. */
        long run(int count);
    }

    static long next(long number) {
        return number * 6364136223846793005L + 1442695040888963407L;
    }

    static long loop(int count) {
        long number = count;
        for (int i = 0; i < count; i++) number = next(number);
        return number;
    }

    static long clock(int count) {
        long number = count;
        for (int i = 0; i < count; i++) number = next(number) + System.nanoTime();
        return number;
    }

    static long off(int count) {
        long number = count;
        for (int i = 0; i < count; i++) {
            number = next(number);
            UNWANTED.emit(number);
        }
        return number;
    }

    static long number(int count) {
        long number = count;
        for (int i = 0; i < count; i++) {
            number = next(number);
            NUMBER.emit(number);
        }
        return number;
    }

    static long name(int count) {
        long number = count;
        for (int i = 0; i < count; i++) {
            number = next(number);
            NAMED.emit(NAME, number);
        }
        return number;
    }

    static long jfrOff(int count) {
        long number = count;
        for (int i = 0; i < count; i++) {
            number = next(number);
            final JfrUnwanted event = new JfrUnwanted();
            event.number = number;
            event.commit();
        }
        return number;
    }

    static long jfrNumber(int count) {
        long number = count;
        for (int i = 0; i < count; i++) {
            number = next(number);
            final JfrNumber event = new JfrNumber();
            event.number = number;
            event.commit();
        }
        return number;
    }

    static long jfrName(int count) {
        long number = count;
        for (int i = 0; i < count; i++) {
            number = next(number);
            final JfrName event = new JfrName();
            event.name = NAME;
            event.number = number;
            event.commit();
        }
        return number;
    }

    static long jfrStack(int count) {
        long number = count;
        for (int i = 0; i < count; i++) {
            number = next(number);
            final JfrStack event = new JfrStack();
            event.number = number;
            event.commit();
        }
        return number;
    }

    static long kept;

    static double chunk(Case what) {
        final long begin = System.nanoTime();
        kept += what.run(CHUNK);
        return (System.nanoTime() - begin) / (double) CHUNK;
    }

    static String figures(double[] chunks) {
        Arrays.sort(chunks);
        return String.format(java.util.Locale.ROOT, "{\"median\": %.4f, \"p5\": %.4f, \"p95\": %.4f}", chunks[chunks.length / 2],
            chunks[chunks.length / 20], chunks[chunks.length - 1 - chunks.length / 20]);
    }

    public static void main(String[] words) {
        if (Plumb.problem() != null || !NUMBER.isOn() || UNWANTED.isOn()) {
            System.err.println("the events are not as they should be: " + Plumb.problem() + " " + NUMBER.isOn() + " " + UNWANTED.isOn());
            System.exit(1);
        }
        final Recording recording = new Recording(); // into memory, as Plumb's session
        recording.setToDisk(false);
        recording.enable(JfrNumber.class);
        recording.enable(JfrName.class);
        recording.enable(JfrStack.class);
        recording.disable(JfrUnwanted.class);
        recording.start();
        final Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("loop", JavaCosts::loop);
        cases.put("clock", JavaCosts::clock);
        cases.put("off", JavaCosts::off);
        cases.put("number", JavaCosts::number);
        cases.put("name", JavaCosts::name);
        cases.put("jfr_off", JavaCosts::jfrOff);
        cases.put("jfr_number", JavaCosts::jfrNumber);
        cases.put("jfr_name", JavaCosts::jfrName);
        cases.put("jfr_stack", JavaCosts::jfrStack);
        final int chunks = Integer.parseInt(words[0]);
        final Map<String, double[]> found = new LinkedHashMap<>();
        cases.keySet().forEach(name -> found.put(name, new double[chunks]));
        for (int i = -WARM_UP_CHUNKS; i < chunks; i++)
            for (Map.Entry<String, Case> each : cases.entrySet()) {
                final double ns = chunk(each.getValue());
                if (i >= 0) found.get(each.getKey())[i] = ns;
            }
        recording.close();
        final StringBuilder text = new StringBuilder("{");
        found.forEach((name, all) -> text.append(text.length() > 1 ? ", " : "").append('"').append(name).append("\": ").append(figures(all)));
        System.out.println(text.append("}"));
    }
}
