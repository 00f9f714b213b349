package plumb.log4j;

import java.io.Serializable;
import org.apache.logging.log4j.core.Appender;
import org.apache.logging.log4j.core.Core;
import org.apache.logging.log4j.core.Filter;
import org.apache.logging.log4j.core.Layout;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;
import org.apache.logging.log4j.core.config.plugins.Plugin;
import org.apache.logging.log4j.core.config.plugins.PluginBuilderFactory;
import plumb.internal.LogEvents;

/**
 * Turns what log4j2 logs into events of Plumb, those that java.util.logging has as well (plumb.logging.PlumbHandler): java:severe, warning,
 * info, config, fine, finer and finest. While nobody records a level, nothing is done here but a look at one word of memory.
 *
 * <p>In log4j2.xml: {@code <Plumb name="plumb"/>} among the appenders. docs/java-logging.md has more.
 */
@Plugin(name = "Plumb", category = Core.CATEGORY_NAME, elementType = Appender.ELEMENT_TYPE, printObject = true)
public final class PlumbAppender extends AbstractAppender {
    private PlumbAppender(String name, Filter filter, Layout<? extends Serializable> layout, boolean ignoreExceptions) {
        super(name, filter, layout, ignoreExceptions, Property.EMPTY_ARRAY);
    }

    /** As log4j2's configuration makes it. */
    public static final class Builder extends AbstractAppender.Builder<Builder>
        implements org.apache.logging.log4j.core.util.Builder<PlumbAppender> {
        @Override
        public PlumbAppender build() {
            LogEvents.load();
            return new PlumbAppender(getName(), getFilter(), getLayout(), isIgnoreExceptions());
        }
    }

    @PluginBuilderFactory
    public static Builder newBuilder() {
        return new Builder();
    }

    @Override
    public void append(LogEvent event) {
        final int level = levelOf(event.getLevel().intLevel());
        final int kind = LogEvents.kindOf(level);
        if (!LogEvents.isOn(kind)) return;
        try {
            final String message = messageOf(event);
            final StackTraceElement place = event.getSource(); // looked for now, unless another thread handed it over without
            LogEvents.log(kind, level, event.getLoggerName(), message, event.getThreadName(), place == null ? null : place.getClassName(),
                place == null ? null : place.getMethodName());
        } catch (Exception problem) { // of what makes the message; log4j2 says it, or hands it on, as it is configured
            LogEvents.lose(kind);
            throw problem;
        } catch (ThreadDeath stopped) {
            throw stopped;
        } catch (Throwable none) { // some languages throw what is no Error either
            LogEvents.lose(kind); // the program would not have met it without us, nor log4j2 have said it
        }
    }

    /**
     * As java.util.logging numbers it. log4j2 has 100 for FATAL, and 100 more for each of ERROR, WARN, INFO, DEBUG and TRACE; its bridges
     * have CONFIG in the middle between INFO and DEBUG.
     */
    private static int levelOf(int level) {
        if (level <= 400) return 1200 - level;
        if (level <= 450) return 800 - 2 * (level - 400);
        if (level <= 500) return 700 - 4 * (level - 450);
        return 1000 - level;
    }

    private String messageOf(LogEvent event) {
        if (getLayout() != null) return String.valueOf(getLayout().toSerializable(event));
        final String message = event.getMessage().getFormattedMessage();
        return event.getThrown() == null ? message : LogEvents.withStackTrace(message, event.getThrown());
    }
}
