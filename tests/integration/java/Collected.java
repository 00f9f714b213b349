import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;

/**
 * Loads a class with an event, lets it go, and loads another one whose event of that name is different; "at once": before the collector
 * has come by.
 */
public class Collected {
    static WeakReference<ClassLoader> emitBy(URL classes) throws Exception {
        final ClassLoader loader = new URLClassLoader(new URL[] {classes}, Collected.class.getClassLoader());
        Class.forName("Loaded", true, loader).getMethod("emit").invoke(null);
        return new WeakReference<>(loader);
    }

    public static void main(String[] words) throws Exception {
        for (String word : words) {
            if (word.equals("at once")) continue;
            final WeakReference<ClassLoader> loader = emitBy(Path.of(word).toUri().toURL());
            if (words[0].equals("at once")) continue;
            for (int i = 0; i < 100 && loader.get() != null; i++) {
                System.gc();
                Thread.sleep(20);
            }
            System.out.println(loader.get() == null ? "gone" : "there");
        }
    }
}
