import plumb.Event;
import plumb.Plumb;

/** Emits on the way back from where the stack ended, and says how often emit() returned, and how often it threw. */
public class Depth {
    @Event("shop:deep")
    interface Said {
        void emit(int number, String text, int[] more);
    }

    private static final Said SAID = Plumb.event(Said.class);
    private static final int[] MORE = {1, 2};
    private static int returned, thrown;

    private static int descend() {
        int back;
        try {
            back = descend() + 1;
        } catch (StackOverflowError end) {
            back = 0;
        }
        if (back < 200) {
            try {
                SAID.emit(back, "deep", MORE);
                returned++;
            } catch (StackOverflowError end) {
                thrown++;
            }
        }
        return back;
    }

    public static void main(String[] words) throws Exception {
        SAID.emit(-1, "first", MORE);
        final Thread thread = new Thread(null, Depth::descend, "deep", 1 << 20);
        thread.start();
        thread.join();
        System.out.println(returned + " " + thrown);
    }
}
