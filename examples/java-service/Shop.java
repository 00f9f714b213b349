import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReentrantLock;
import plumb.Event;
import plumb.Plumb;

/** A shop on the loopback interface: each GET of /order/ITEM sells one. It has two locks, and holds both for too long. */
public class Shop {
    @Event("shop:order")
    interface Order {
        void emit(long id, String item, int left);
    }

    private static final Order ORDER = Plumb.event(Order.class);

    private final Map<String, Integer> stock = new HashMap<>();
    private final ReentrantLock ledger = new ReentrantLock();
    private long orders;
    private double turnover;

    /** What is left of it. */
    private int take(String item) {
        synchronized (stock) {
            work(200_000);
            return stock.merge(item, -1, Integer::sum);
        }
    }

    private long enter(String item) {
        ledger.lock();
        try {
            turnover += work(100_000);
            return ++orders;
        } finally {
            ledger.unlock();
        }
    }

    private static double work(int steps) {
        double sum = 0;
        for (int i = 1; i <= steps; i++) sum += 1.0 / i;
        return sum;
    }

    private void serve(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath();
        String item = path.substring(path.lastIndexOf('/') + 1);
        int left = take(item);
        long id = enter(item);
        ORDER.emit(id, item, left);
        byte[] answer = ("order " + id + "\n").getBytes();
        exchange.sendResponseHeaders(200, answer.length);
        exchange.getResponseBody().write(answer);
        exchange.close();
    }

    public static void main(String[] words) throws IOException {
        Shop shop = new Shop();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 0);
        var workers = Executors.newFixedThreadPool(8);
        server.setExecutor(workers);
        server.createContext("/order/", shop::serve);
        server.start();
        System.out.println("at port " + server.getAddress().getPort());
        System.in.read(); // until its input ends
        server.stop(0);
        workers.shutdown();
        System.out.println(shop.orders + " orders");
    }
}
