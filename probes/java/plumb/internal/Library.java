package plumb.internal;

import java.nio.file.Files;
import java.nio.file.Path;
import java.security.AccessController;
import java.security.PrivilegedAction;
import java.util.ArrayList;
import java.util.List;

/** Finds and loads the native half of plumb.jar. */
public final class Library {
    private static final String NAME = "libplumb-java.so";

    private Library() {}

    /**
     * Beside plumb.jar as installed, lib/plumb/java; or in the folder that PLUMB_PROBE_DIR names. By plumb.jar's own right: a security
     * manager's policy need not give whoever asks what that takes.
     *
     * @param who asks for it, for the message
     * @throws UnsatisfiedLinkError it is not there, or does not load
     */
    @SuppressWarnings("removal")
    public static void load(String who) {
        AccessController.doPrivileged((PrivilegedAction<Void>) () -> {
            find(who);
            return null;
        });
    }

    private static void find(String who) {
        final List<Path> tried = new ArrayList<>();
        final String chosen = System.getenv("PLUMB_PROBE_DIR");
        if (chosen != null && !chosen.isEmpty()) {
            tried.add(Path.of(chosen, NAME));
        } else {
            try {
                final Path jar = Path.of(Library.class.getProtectionDomain().getCodeSource().getLocation().toURI());
                for (Path folder = jar.getParent(); folder != null && tried.size() < 2; folder = folder.getParent())
                    tried.add(folder.resolve(NAME));
            } catch (java.net.URISyntaxException | RuntimeException unknown) {
                // of no file: nothing is beside it
            }
        }
        for (Path path : tried) {
            if (!Files.exists(path)) continue;
            System.load(path.toAbsolutePath().toString());
            return;
        }
        throw new UnsatisfiedLinkError(who + ": " + NAME + " is none of " + tried
            + ". Leave plumb.jar where Plumb was installed, lib/plumb/java, or name the library's folder in PLUMB_PROBE_DIR.");
    }
}
