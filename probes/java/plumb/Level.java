package plumb;

/** Log levels of events, as in syslog and LTTng: the first is the most severe. By their order they have Plumb's numbers, from 0. */
public enum Level {
    EMERG,
    ALERT,
    CRIT,
    ERR,
    WARNING,
    NOTICE,
    INFO,
    DEBUG_SYSTEM,
    DEBUG_PROGRAM,
    DEBUG_PROCESS,
    DEBUG_MODULE,
    DEBUG_UNIT,
    DEBUG_FUNCTION,
    DEBUG_LINE,
    DEBUG
}
