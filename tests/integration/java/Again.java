import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.text.NumberFormat;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import plumb.logging.PlumbHandler;

/**
 * "loaders JAR": web applications that are started anew, each with plumb.jar in a loader of its own, and by how many MiB the process has
 * grown. "deep": the first record with a number is logged where there is hardly any stack left, and again with more of it.
 */
public class Again {
    private static final Logger LOG = Logger.getLogger("again");
    private static int returned;

    /** Of addresses that are taken. */
    private static long kilobytes() throws Exception {
        for (String line : Files.readAllLines(Paths.get("/proc/self/status")))
            if (line.startsWith("VmData:")) return Long.parseLong(line.replaceAll("[^0-9]", ""));
        return 0;
    }

    private static void load(URL jar) throws Exception {
        try (URLClassLoader loader = new URLClassLoader(new URL[] {jar}, ClassLoader.getPlatformClassLoader())) {
            final Handler handler = (Handler) loader.loadClass("plumb.logging.PlumbHandler").getConstructor().newInstance();
            handler.publish(new LogRecord(Level.INFO, "loaded"));
        }
    }

    /** Logs on the way back from where the stack ended. */
    private static int descend() {
        int back;
        try {
            back = descend() + 1;
        } catch (StackOverflowError end) {
            back = 0;
        }
        if (back >= 30 && back <= 230 && back % 20 == 10) {
            LOG.log(Level.INFO, "too deep: {0}", back);
            returned++;
        }
        return back;
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("loaders")) {
            long before = 0;
            for (int i = 0; i < 45; i++) {
                if (i == 5) before = kilobytes();
                load(Paths.get(words[1]).toUri().toURL());
                for (int k = 0; k < 3; k++) {
                    System.gc();
                    Thread.sleep(20);
                }
            }
            System.out.println(kilobytes() - before >> 10);
            return;
        }
        LOG.setUseParentHandlers(false);
        LOG.addHandler(new PlumbHandler());
        LOG.log(Level.FINEST, "not let through: what logging itself needs");
        final Thread thread = new Thread(null, Again::descend, "deep", 1 << 20);
        thread.start();
        thread.join();
        LOG.log(Level.INFO, "last {0}", 1);
        System.out.println(returned + " " + NumberFormat.getInstance().format(1).length());
    }
}
