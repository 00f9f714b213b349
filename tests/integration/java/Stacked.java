import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntUnaryOperator;
import plumb.Event;
import plumb.Plumb;

/**
 * Emits where it is, as Throwable says, out of calls of all kinds: recursion, interfaces, lambdas, sorting, reflection, monitors,
 * handlers of exceptions, classes that are loaded while compiled code counts on their absence, methods that are compiled and thrown away.
 * Words: samples, threads, depth, seed.
 */
public class Stacked {
    @Event("shop:place")
    interface Place {
        void emit(long number, String stack);
    }

    private static final Place PLACE = Plumb.event(Place.class);
    static final AtomicLong NUMBERS = new AtomicLong();
    static final Object MONITOR = new Monitor();
    static volatile Object sink;

    static class Monitor { }

    static String told(Throwable here) {
        final StringBuilder text = new StringBuilder();
        for (StackTraceElement frame : here.getStackTrace()) {
            text.append(frame.getClassName()).append('.').append(frame.getMethodName());
            if (frame.getLineNumber() > 0) text.append(':').append(frame.getLineNumber());
            text.append('\n');
        }
        return text.toString();
    }

    public static void sample() {
        PLACE.emit(NUMBERS.incrementAndGet(), told(new Throwable()));
    }

    public abstract static class Shape {
        public abstract int visit(Walker walker, int depth);
    }

    static class Square extends Shape {
        @Override public int visit(Walker walker, int depth) { return walker.go(depth - 1) + 1; }
    }

    static class Circle extends Shape {
        @Override public int visit(Walker walker, int depth) {
            sink = new byte[200];
            return walker.go(depth - 1) + 2;
        }
    }

    /** Defined anew by each loader, as are the two below. */
    public static class Extra extends Shape {
        @Override public int visit(Walker walker, int depth) {
            return walker.go(depth - 1) +
                   walker.small(depth);
        }
    }

    public interface Hopper {
        int run(Runnable before, int depth);
    }

    /** As long as no class overrides hop(), it is a part of what is compiled of run(). */
    public static class Sole implements Hopper {
        @Override public int run(Runnable before, int depth) {
            if (depth > 0) return run(before, depth - 1) + 1;
            return hop(before) + 1;
        }

        public int hop(Runnable before) {
            if (before == null) return 1;
            before.run();
            sample();
            return 2;
        }
    }

    public static class Second extends Sole {
        @Override public int hop(Runnable before) { return 3; }
    }

    static class Loader extends ClassLoader {
        Loader() { super(Stacked.class.getClassLoader()); }

        @Override protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            final Class<?> known = findLoadedClass(name);
            return known != null ? known : name.equals("Stacked$Sole") ? define(name) : super.loadClass(name, resolve);
        }

        Class<?> define(String name) {
            try (InputStream file = Stacked.class.getResourceAsStream(name + ".class")) {
                final byte[] bytes = file.readAllBytes();
                return defineClass(name, bytes, 0, bytes.length);
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        }

        Object made(String name) {
            try {
                final Class<?> known = findLoadedClass(name);
                return (known != null ? known : define(name)).getDeclaredConstructor().newInstance();
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** What is compiled is not true any more when we are asked where we are. */
    static void overridden() {
        final Loader loader = new Loader();
        final Hopper hopper = (Hopper) loader.made("Stacked$Sole");
        for (int i = 0; i < 20_000; i++) hopper.run(null, i % 3);
        hopper.run(Stacked::sample, 2);
        hopper.run(() -> loader.made("Stacked$Second"), 3);
    }

    public static class Walker {
        final Random random;
        final Shape[] shapes = {new Square(), new Square(), new Square(), new Square()};
        final List<Integer> numbers = Arrays.asList(3, 1, 2);
        final Method byReflection;

        Walker(long seed) throws Exception {
            random = new Random(seed);
            byReflection = Walker.class.getMethod("go", int.class);
        }

        public int small(int depth) { return depth & 1; }

        public int go(int depth) {
            if (depth <= 0) {
                sample();
                return 0;
            }
            final int choice = random.nextInt(1000);
            if (choice < 500) return plain(depth);
            if (choice < 800) return shapes[choice % shapes.length].visit(this, depth);
            if (choice < 850) return locked(depth);
            if (choice < 900) return sorted(depth);
            if (choice < 940) return with(n -> go(n - 1) + 1, depth);
            if (choice < 970) return thrown(depth);
            if (choice < 990) return reflected(depth);
            return changed(depth);
        }

        private int plain(int depth) {
            return inlined(depth) + 1;
        }

        private int inlined(int depth) {
            int sum = 0;
            for (int i = 0; i < 3; i++) sum += small(i);
            return sum + go(depth - 1);
        }

        private int locked(int depth) {
            synchronized (MONITOR) {
                if (depth > 3) return still(depth);
            }
            return go(depth - 1);
        }

        private synchronized int still(int depth) {
            return go(3);
        }

        private int sorted(int depth) {
            final boolean[] done = {false};
            final List<Integer> copy = new ArrayList<>(numbers);
            copy.sort((a, b) -> {
                if (!done[0]) go(depth - 1);
                done[0] = true;
                return a - b;
            });
            return copy.get(0);
        }

        private int with(IntUnaryOperator operator, int depth) {
            return operator.applyAsInt(depth);
        }

        private int thrown(int depth) {
            try {
                if (go(depth - 1) >= 0) throw new IllegalStateException("at " + depth);
            } catch (IllegalStateException e) {
                return e.getMessage().length();
            } finally {
                go(depth > 4 ? 2 : 0);
            }
            return 0;
        }

        private int reflected(int depth) {
            try {
                return (Integer) byReflection.invoke(this, depth - 1);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }

        /** What was compiled above us is not true any more. */
        private int changed(int depth) {
            shapes[random.nextInt(shapes.length)] =
                random.nextInt(3) == 0 ? (Shape) new Loader().made("Stacked$Extra") : new Circle();
            return go(depth - 1);
        }
    }

    static void work(long samples, int depth, long seed) {
        try {
            while (NUMBERS.get() < samples) {
                final Walker walker = new Walker(seed++);
                for (int i = 0; i < 40 && NUMBERS.get() < samples; i++) walker.go(1 + walker.random.nextInt(depth));
                sink = new byte[1 << 16];
                if (seed % 4 == 0) overridden();
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] words) throws Exception {
        final long samples = Long.parseLong(words[0]);
        final Thread[] threads = new Thread[Integer.parseInt(words[1])];
        for (int i = 0; i < threads.length; i++) {
            final long seed = Long.parseLong(words[3]) + 1000L * i;
            threads[i] = new Thread(() -> work(samples, Integer.parseInt(words[2]), seed));
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println("samples " + NUMBERS.get());
    }
}
