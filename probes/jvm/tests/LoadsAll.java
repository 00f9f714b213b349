import java.net.URI;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Loads and links all classes of a module of the JDK, and prints how many, and how many the JVM refused. */
public class LoadsAll {
    public static void main(String[] words) throws Exception {
        Path root = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("/modules", words[0]);
        List<Path> all;
        try (Stream<Path> files = Files.walk(root)) {
            all = files.filter(path -> path.toString().endsWith(".class") && !path.toString().endsWith("-info.class"))
                       .collect(Collectors.toList());
        }
        int loaded = 0, refused = 0;
        for (Path path : all) {
            String name = path.subpath(2, path.getNameCount()).toString().replace('/', '.');
            name = name.substring(0, name.length() - ".class".length());
            try {
                Class.forName(name, false, ClassLoader.getSystemClassLoader()).getDeclaredMethods();
                loaded++;
            } catch (ClassNotFoundException | NoClassDefFoundError e) {
                continue; // what it extends is in no module that is there
            } catch (LinkageError e) {
                System.out.println(name + ": " + e);
                refused++;
            }
        }
        System.out.println("loaded " + loaded);
        System.out.println("refused " + refused);
    }
}
