package plumb;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes an interface the declaration of an event: its one abstract method, which returns nothing, emits it, and the method's parameters
 * are the fields. {@link Plumb#event(Class)} makes what implements it.
 */
@Documented
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
public @interface Event {
    /** "provider:event", of letters, digits and underscores. */
    String value();

    Level level() default Level.DEBUG_LINE;
}
