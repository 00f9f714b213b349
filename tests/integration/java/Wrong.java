import java.lang.invoke.MethodHandles;
import plumb.Event;
import plumb.Field;
import plumb.Hex;
import plumb.Level;
import plumb.Plumb;
import plumb.Unsigned;

/** Declares the event that it is told to, and says what it hears. */
public class Wrong {
    @Event("shop order") interface Name { void emit(); }
    @Event("shop:größe") interface Letters { void emit(); }
    interface Plain { void emit(); }
    @Event("shop:class") abstract static class NoInterface { abstract void emit(); }
    @Event("shop:type") interface Type { void emit(int id, Object what); }
    @Event("shop:arrays") interface Arrays { void emit(String[] all); }
    @Event("shop:boxed") interface Boxed { void emit(Integer id); }
    @Event("shop:result") interface Result { int emit(int id); }
    @Event("shop:two") interface Two { void emit(int id); void send(int id); }
    @Event("shop:none") interface None { boolean isOn(); }
    @Event("shop:unsigned") interface UnsignedDouble { void emit(@Unsigned double total); }
    @Event("shop:arrayed") interface UnsignedFloats { void emit(@Unsigned float[] all); }
    @Event("shop:hex") interface HexEnum { void emit(@Hex Thread.State state); }
    @Event("shop:field") interface FieldName { void emit(@Field("two words") int id); }
    @Event("shop:same") interface SameNames { void emit(@Field("id") int one, @Field("id") int two); }
    @Event("shop:sealed") sealed interface Sealed permits Only { void emit(); }
    record Only() implements Sealed { public void emit() {} }
    @Event("shop:full") interface Full {
        void emit(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m, int n, int o, int p, long a1,
            long b1, long c1, long d1, long e1, long f1, long g1, long h1, long i1, long j1, long k1, long l1, long m1, long n1, long o1,
            long p1);
    }
    @Event("shop:fuller") interface Fuller {
        void emit(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m, int n, int o, int p, long a1,
            long b1, long c1, long d1, long e1, long f1, long g1, long h1, long i1, long j1, long k1, long l1, long m1, long n1, long o1,
            long p1, byte more);
    }
    @Event("shop:order") interface Order { void emit(int id); }
    @Event("shop:order") interface Again { void emit(int id); }
    @Event("shop:order") interface Other { void emit(int id, String customer); }
    @Event(value = "shop:order", level = Level.INFO) interface Louder { void emit(int id); }

    public static void main(String[] words) throws Exception {
        Plumb.event(Order.class).emit(1);
        Plumb.event(Again.class).emit(2);
        Plumb.event(Order.class, MethodHandles.lookup()).emit(3);
        Plumb.event(Other.class).emit(4, "bob");
        Plumb.event(Louder.class).emit(5);
        Plumb.event(Order.class).emit(6);
        Plumb.event(Full.class).emit(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
            30, 31, 32);
        final Class<?>[] all = {Name.class, Letters.class, Plain.class, NoInterface.class, Type.class, Arrays.class, Boxed.class, Result.class,
            Two.class, None.class, UnsignedDouble.class, UnsignedFloats.class, HexEnum.class, FieldName.class, SameNames.class, Sealed.class, Fuller.class};
        for (Class<?> each : all) {
            try {
                Plumb.event(each);
                System.out.println(each.getSimpleName() + " is not refused");
            } catch (IllegalArgumentException refused) {
                System.out.println(refused.getMessage());
            }
        }
        try {
            Plumb.event(Order.class, MethodHandles.publicLookup());
            System.out.println("a lookup of nobody's is not refused");
        } catch (IllegalArgumentException refused) {
            System.out.println(refused.getMessage());
        }
    }
}
