import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.IntUnaryOperator;

/**
 * Calls methods of every kind, in several threads, and prints how often each was called, and how many exceptions left them; with "serve",
 * round by round until its input ends. Which method it is that counts is said by itself: see Counts.
 */
public class Calls {
    static final int THREADS = 3, ROUNDS = 20;

    static int fib(int n) {
        Counts.called("fib");
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }

    /** Begins with a place that is jumped to. */
    static int spin(int n) {
        while (n-- > 0) Counts.spun.increment();
        Counts.called("spin");
        return n;
    }

    static long mixed(long a, double b, float c, byte d, char e, short f, boolean g, int[][] h, String i, Object[] j) {
        Counts.called("mixed");
        long sum = 0;
        for (long k = 0; k < 5; k++) {
            double more = b * k;
            for (int l = 0; l < h.length; l++) sum += h[l].length + (long) more;
            if (g && k == 3) return sum + a;
            String text = i + k;
            sum += text.length() + j.length;
        }
        return sum + d + e + f + (long) c;
    }

    static String table(int kind) {
        Counts.called("table");
        switch (kind) {
            case 0: return "none";
            case 1: case 2: return "few";
            case 3: kind += 10; break;
            case 4: throw new IllegalArgumentException("four");
            default: kind = -kind;
        }
        return "some" + kind;
    }

    static int lookup(int kind) {
        Counts.called("lookup");
        int sum = 0;
        for (int i = 0; i < 3; i++) {
            switch (kind + i) {
                case -1000: sum += 1; break;
                case 7: sum += 2; continue;
                case 100000: return sum;
                case 8: sum += 4;
                default: sum += 8;
            }
        }
        return sum;
    }

    static double texts(String kind) {
        Counts.called("texts");
        return switch (kind) {
            case "one" -> 1;
            case "two" -> { double two = 2; yield two; }
            case "Aa", "BB" -> 3;
            default -> throw new IllegalStateException(kind);
        };
    }

    static float guarded(int kind) {
        Counts.called("guarded");
        float result = 1;
        try {
            try {
                if (kind == 1) return 5f;
                if (kind == 2) throw new IllegalStateException("two");
                if (kind == 3) throw new IllegalArgumentException("three");
                if (kind == 4) throw new OutOfMemoryError("four, not really");
                result += table(kind).length();
            } catch (IllegalStateException e) {
                result += e.getMessage().length();
            } finally {
                result += kind;
                if (kind == 5) return result;
            }
        } catch (IllegalArgumentException | ArithmeticException e) {
            long more = e.getMessage().length();
            return result + more;
        }
        return result;
    }

    static void thrower(int depth) {
        Counts.called("thrower");
        if (depth == 0) throw new IllegalStateException("thrown");
        thrower(depth - 1);
    }

    static synchronized void inClass() { Counts.called("inClass"); }
    synchronized int inObject(boolean throwing) {
        Counts.called("inObject");
        synchronized (Calls.class) {
            synchronized (Counts.spun) {
                if (throwing) throw new IllegalStateException("inside");
                return 4;
            }
        }
    }

    static class Base {
        final Object held;
        Base(Object held) {
            Counts.called("Base.init");
            this.held = held;
            if (held == null) throw new IllegalStateException("held");
        }
    }
    static class Derived extends Base implements Comparable<Derived> {
        final int number;
        Derived(boolean which, int number) {
            super(which ? new StringBuilder("n").append(number) : number > 0 ? new Object[] {new Object(), new int[number]} : null);
            this.number = number;
            for (int i = 0; i < 3; i++) if (i == number) return;
            Counts.called("Derived.init");
        }
        Derived(int number) {
            this(number % 2 == 0, Integer.parseInt("" + number));
            Counts.called("Derived.one");
        }
        @Override public int compareTo(Derived other) {
            Counts.called("compareTo");
            return Integer.compare(number, other.number);
        }
    }
    /** Its constructor's call of super() is between jumps, and an exception may come before. */
    class Inner extends Base {
        Inner(String text) {
            super(text.isEmpty() ? null : text.charAt(0) == 'x' ? (Object) text : Calls.this);
            Counts.called("Inner.init");
        }
    }
    static class Late {
        static final int value;
        static {
            int sum = 0;
            for (int i = 0; i < 4; i++) sum += i;
            value = sum;
            Counts.called("Late.clinit");
        }
        static int get() { return value; }
    }
    interface Shape {
        default int area() {
            Counts.called("area");
            return side() * side();
        }
        int side();
        static Shape of(int side) {
            Counts.called("of");
            return () -> side;
        }
    }
    enum Kind {
        PLAIN, LARGE {
            @Override int size() {
                Counts.called("large");
                return 9;
            }
        };
        int size() {
            Counts.called("plain");
            return ordinal();
        }
    }
    record Pair(long left, String right) {
        Pair {
            if (left < 0) throw new IllegalArgumentException("left");
        }
    }
    static <T extends Comparable<T>> T greatest(List<? extends T> all) {
        Counts.called("greatest");
        T best = null;
        for (T each : all) if (best == null || best.compareTo(each) < 0) best = each;
        return best;
    }
    static int applied(int from) {
        Counts.called("applied");
        IntUnaryOperator twice = each -> {
            Counts.called("lambda");
            return each * 2;
        };
        return twice.andThen(Calls::spin).applyAsInt(from);
    }

    interface Part { void run() throws Exception; }
    static void quiet(Part part) {
        try {
            part.run();
        } catch (Exception | OutOfMemoryError e) {
            Counts.threw(e);
        }
    }

    static void round() {
        fib(9);
        for (int i = 0; i < 6; i++) {
            final int kind = i;
            quiet(() -> table(kind));
            quiet(() -> guarded(kind));
            quiet(() -> lookup(kind * 2 + 1));
            quiet(() -> thrower(kind));
            quiet(() -> new Derived(kind));
            quiet(() -> new Derived(false, kind - 1));
            quiet(() -> new Calls().inObject(kind == 2));
            quiet(() -> new Pair(kind - 1, "p"));
        }
        quiet(() -> lookup(-1000));
        quiet(() -> lookup(99999));
        for (String text : new String[] {"one", "two", "Aa", "BB", "other"}) quiet(() -> texts(text));
        for (String text : new String[] {"", "x", "y", null}) quiet(() -> new Calls().new Inner(text));
        mixed(1L << 40, 1.5, 2f, (byte) 3, 'c', (short) 4, true, new int[3][4], "i", new Object[2]);
        mixed(1L << 40, 1.5, 2f, (byte) 3, 'c', (short) 4, false, new int[3][4], "i", new Object[2]);
        inClass();
        spin(0);
        applied(5);
        Late.get();
        Shape.of(3).area();
        for (Kind kind : Kind.values()) kind.size();
        List<Derived> all = new ArrayList<>();
        for (int i = 1; i < 5; i++) all.add(new Derived(i + 10));
        greatest(all);
    }

    static void in(int threads, Runnable work) throws InterruptedException {
        Thread[] all = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            all[i] = new Thread(work, "calls-" + i);
            all[i].start();
        }
        for (Thread each : all) each.join();
    }

    public static void main(String[] words) throws Exception {
        if (words.length == 0) {
            in(THREADS, () -> { for (int i = 0; i < ROUNDS; i++) round(); });
            Counts.print();
            System.exit(7);
        }
        boolean[] stopped = new boolean[1];
        Thread reader = new Thread(() -> {
            try {
                System.out.println("ready");
                while (System.in.read() != -1) { }
            } catch (java.io.IOException e) {
                throw new IllegalStateException(e);
            }
            synchronized (stopped) { stopped[0] = true; }
        }, "reader");
        reader.start();
        LongAdder rounds = new LongAdder();
        in(THREADS, () -> {
            for (;;) {
                synchronized (stopped) { if (stopped[0]) return; }
                round();
                rounds.increment();
                try { Thread.sleep(1); } catch (InterruptedException e) { return; }
            }
        });
        System.out.println("rounds " + (rounds.sum() > 0 && Counts.isWhole(rounds.sum())));
    }
}

class Counts {
    static final LongAdder spun = new LongAdder();
    static final Map<String, LongAdder> calls = new ConcurrentHashMap<>();
    static void called(String method) { calls.computeIfAbsent(method, key -> new LongAdder()).increment(); }
    static void threw(Throwable what) { called("threw " + what.getClass().getName()); }
    static boolean isWhole(long rounds) { return calls.get("fib").sum() == rounds * 109 && calls.get("greatest").sum() == rounds; }
    static void print() {
        for (Map.Entry<String, LongAdder> each : new TreeMap<>(calls).entrySet()) System.out.println(each.getKey() + " " + each.getValue());
    }
}
