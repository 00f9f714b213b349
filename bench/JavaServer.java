import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import org.apache.catalina.startup.Tomcat;

/**
 * A shop behind Tomcat: each answer takes one of four connections from a pool, changes the stock under a lock, and lists the fifty
 * articles that sold best. Prints "ready", serves until its standard input ends, and prints how many answers it gave.
 *
 * <p>Run by bench/java_server.py: {@code JavaServer PORT FOLDER}.
 */
public class JavaServer extends HttpServlet {
    private static final int ARTICLES = 500;

    private final transient Map<String, Long> sold = new HashMap<>();
    private final transient ArrayBlockingQueue<StringBuilder> connections = new ArrayBlockingQueue<>(4);
    private long answers;

    JavaServer() {
        for (int i = 0; i < ARTICLES; i++) {
            sold.put("article-" + i, 0L);
        }
        for (int i = 0; i < 4; i++) {
            connections.add(new StringBuilder());
        }
    }

    private Map<String, Long> sell() {
        synchronized (sold) {
            answers++;
            sold.merge("article-" + answers % ARTICLES, 1L, Long::sum);
            return new HashMap<>(sold);
        }
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        StringBuilder text;
        try {
            text = connections.take();
        } catch (InterruptedException interrupted) {
            throw new IOException(interrupted);
        }
        text.setLength(0);
        sell().entrySet().stream().sorted(Map.Entry.<String, Long>comparingByValue(Comparator.reverseOrder())).limit(50).forEach(
            article -> text.append('"').append(article.getKey()).append("\": ").append(article.getValue()).append('\n'));
        String answer = text.toString();
        connections.add(text);
        response.setContentType("text/plain");
        response.getWriter().print(answer);
    }

    public static void main(String[] words) throws Exception {
        JavaServer server = new JavaServer();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(words[1]);
        tomcat.setPort(Integer.parseInt(words[0]));
        tomcat.getConnector();
        var context = tomcat.addContext("", new File(words[1]).getAbsolutePath());
        Tomcat.addServlet(context, "server", server);
        context.addServletMappingDecoded("/", "server");
        tomcat.start();
        System.out.println("ready");
        while (System.in.read() >= 0) {
        }
        tomcat.stop();
        tomcat.destroy();
        System.out.println(server.answers);
    }
}
