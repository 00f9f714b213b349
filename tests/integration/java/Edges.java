import plumb.Event;
import plumb.Field;
import plumb.Hex;
import plumb.Level;
import plumb.Plumb;
import plumb.Unsigned;

/** Nulls, halves of pairs, numbers that are none; in interfaces of all kinds. */
public class Edges {
    enum Status { NEW, SENT, größer }

    @Event(value = "shop:order", level = Level.INFO)
    private interface Order {
        void emit(@Field("customer") String who, double total);
    }

    interface Base {
        void changed(Status was, Status is);
    }

    @Event("shop:state")
    interface State extends Base {
        default void began(Status status) { changed(null, status); }
        static int unrelated() { return 0; }
    }

    interface One {
        void emit(int id);
        boolean isOn();
    }

    interface Another {
        void emit(int id);
        boolean isOn();
    }

    @Event("shop:both")
    interface Both extends One, Another {}

    @Event("shop:nothing")
    interface Nothing {
        void happened();
    }

    @Event("shop:lists")
    interface Lists {
        void emit(@Unsigned byte[] bytes, char[] names, double[] totals);
    }

    @Event("shop:shown")
    public interface Shown {
        void emit(@Hex int word, @Unsigned byte small, @Field("long") @Unsigned long number);
    }

    public static void main(String[] words) {
        final Order order = Plumb.event(Order.class);
        order.emit("Köchin 小さい 🙂 \ud800 \udc00 ß \0 nul", Double.NaN);
        order.emit(null, Double.POSITIVE_INFINITY);
        order.emit("", Double.NEGATIVE_INFINITY);
        order.emit("ends in half \ud83d", -0.0);
        Plumb.event(State.class).began(Status.größer);
        Plumb.event(Both.class).emit(5);
        Plumb.event(Nothing.class, java.lang.invoke.MethodHandles.lookup()).happened();
        final Lists lists = Plumb.event(Lists.class);
        lists.emit(null, null, null);
        lists.emit(new byte[0], new char[0], new double[0]);
        lists.emit(new byte[] {-1, 0, -128}, new char[] {'\ud800', 0, '\uffff'}, new double[] {0.1, Double.NaN, -0.0});
        Plumb.event(Shown.class).emit(-1, (byte) -1, -1);
    }
}
