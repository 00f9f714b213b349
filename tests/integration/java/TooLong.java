import plumb.Event;
import plumb.Plumb;

/** What is longer than a record. */
public class TooLong {
    @Event("shop:text")
    interface Text {
        void emit(int number, String text, String behind);
    }

    @Event("shop:longs")
    interface Longs {
        void emit(long[] longs);
    }

    public static void main(String[] words) {
        final Text text = Plumb.event(Text.class);
        text.emit(1, "x".repeat(5000), "");
        text.emit(2, "я".repeat(20000), "");
        text.emit(3, "x".repeat(100000), "");
        text.emit(4, "я".repeat(100000), "none");
        final int most = 65528 - 16 - 8;
        text.emit(5, "z".repeat(most - 1), "я");
        text.emit(6, "z".repeat(most - 1) + "y", "");
        text.emit(7, "я".repeat(100000), "é".repeat(5000));
        // What is put together piece by piece, with a pair where one ends: by chars, and by bytes.
        text.emit(8, "x".repeat(4095) + "🙂" + "x".repeat(9000) + "é" + "x".repeat(5000), "x".repeat(4097));
        text.emit(9, "я".repeat(2047) + "🙂" + "小".repeat(2000), "я".repeat(2048) + "\ud83d");
        final Longs longs = Plumb.event(Longs.class);
        longs.emit(new long[10000]);
        longs.emit(new long[3]);
    }
}
