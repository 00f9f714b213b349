import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Logger;
import plumb.Event;
import plumb.Plumb;
import plumb.logging.PlumbHandler;

/** Declares its first event, or makes its first handler, where direct memory is used up. */
public class Late {
    @Event("shop:late")
    interface Said {
        void emit(int number, String text);
    }

    private static List<ByteBuffer> useUpDirectMemory() {
        final List<ByteBuffer> kept = new ArrayList<>();
        for (int size = 1 << 20; size >= 1; size >>= 1)
            try {
                while (true) kept.add(ByteBuffer.allocateDirect(size));
            } catch (OutOfMemoryError none) {
                // of that size
            }
        return kept;
    }

    public static void main(String[] words) {
        final List<ByteBuffer> kept = useUpDirectMemory();
        if (words[0].equals("log")) {
            final Logger log = Logger.getLogger("shop");
            log.setUseParentHandlers(false);
            log.addHandler(new PlumbHandler());
            log.info("said");
        } else {
            Plumb.event(Said.class).emit(1, "said");
        }
        System.out.println(kept.isEmpty());
    }
}
