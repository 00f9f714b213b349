"""Python's log records as events of Plumb.

    import logging
    import plumb_logging

    logging.getLogger().addHandler(plumb_logging.Handler())

    plumb record -e 'python:*' -- python3 app.py
    plumb record -e 'python:*' --log-level warning -p PID

The events are python:critical, error, warning, info and debug, with logger, message, level, thread, file, line and function. While
nobody records them a record costs the look at one word. docs/python.md has more.
"""
import atexit
import ctypes
import logging
import os
import sys
import types

__all__ = ["Handler", "is_on"]

_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    chosen = os.environ.get("PLUMB_PROBE_DIR")
    tried = [os.path.join(folder, "libplumb-python.so")
             for folder in ([chosen] if chosen else [os.path.dirname(here), here])]
    for path in tried:
        if os.path.exists(path):
            try:
                return ctypes.CDLL(path)
            except OSError as error:
                raise ImportError(f"plumb_logging: {path} can not be loaded: {error}") from error
    raise ImportError(f"plumb_logging: there is no {' and no '.join(tried)}. Leave plumb_logging.py where Plumb was installed, "
                      "lib/plumb/python, and name that folder in PYTHONPATH; or name the folder of the library in PLUMB_PROBE_DIR.")


class _Text(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char_p), ("length", ctypes.c_ulong)]


class _Record(ctypes.Structure):
    _fields_ = [("level", ctypes.c_int), ("line", ctypes.c_int), ("logger", _Text), ("message", _Text), ("thread", _Text),
                ("file", _Text), ("function", _Text)]


_library = _load()
_library.plumb_python_word.restype = ctypes.c_void_p
_log = _library.plumb_python_log
_log.argtypes, _log.restype = [ctypes.POINTER(_Record)], None
_lose = _library.plumb_python_lose
_lose.argtypes, _lose.restype = [ctypes.c_int], None
# The words that say which are on: of debug, info, warning, error, critical.
_words = [ctypes.c_uint32.from_address(_library.plumb_python_word(level)) for level in reversed(_LEVELS)]
_LAST = len(_words) - 1


def is_on(level):
    """Whether somebody records what is logged at this level just now."""
    return _words[min(max(int(level) // 10 - 1, 0), _LAST)].value != 0


def _text(value):
    encoded = str(value).encode("utf-8", "backslashreplace") if value is not None else b""
    return _Text(encoded, len(encoded))


def _number(value):
    return value if isinstance(value, int) and -2**31 <= value < 2**31 else 0


def _level(value):
    """As the event has it. A record may be made of anything, and what is no number is no level."""
    try:
        return int(min(max(value, -2**31), 2**31 - 1))
    except (ArithmeticError, TypeError, ValueError):
        return 0


# Levels of records that were lost. Where the stack is full they may not be counted: that is done with the next record, or at the end.
_uncounted = []
# Before Python 3.10 the limit is not looked at again until the stack is 50 frames below it, and who goes beyond meanwhile is aborted.
_HAS_TO_UNWIND = sys.version_info < (3, 10)


def _count_lost():
    while _uncounted:
        try:
            level = _uncounted.pop()
        except (IndexError, RecursionError):  # another thread's by now
            return
        try:
            _lose(level)
        except Exception:
            _uncounted.append(level)
            return


atexit.register(_count_lost)


_attributes_of = vars(logging.LogRecord)["__dict__"].__get__
# What formatters keep in a record.
_KEPT = ("message", "asctime", "exc_text")
_ABSENT = object()


def _copy_slots(kind, record, made):
    for each in kind.__mro__:
        for slot in vars(each).values():
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    value = slot.__get__(record)
                except AttributeError:  # nothing is in it
                    continue
                slot.__set__(made, value)


def _copy_of(record):
    """None: it can not be copied by no code of its class, which may copy something else, as for pickling, or give back twice what it has
    once."""
    kind = type(record)
    if not issubclass(kind, logging.LogRecord) or hasattr(kind, "__del__"):
        return None
    try:
        made = object.__new__(kind)
        _attributes_of(made).update(_attributes_of(record))
        if kind.__basicsize__ != logging.LogRecord.__basicsize__:
            _copy_slots(kind, record, made)
    except (TypeError, AttributeError):  # a part of it is of a class in C
        return None
    return made


def _put_back(record, kept):
    for name, value in kept:
        try:
            if value is _ABSENT:
                record.__dict__.pop(name, None)
            elif getattr(record, name) is not value:
                setattr(record, name, value)
        except (AttributeError, TypeError):  # it has no __dict__, or lets nobody set it: then it stays as the formatter left it
            pass


class Handler(logging.Handler):
    """Turns records into events. Nothing is formatted while they are off, and no lock is taken: a record of one thread never waits for
    another thread's. A formatter, if one is set, makes the message; without, it is the record's own, with the exception's
    traceback behind it. The record stays as it is."""

    def createLock(self):  # noqa: N802 - the name is logging's
        self.lock = None

    def handle(self, record):
        """As logging's own, which from Python 3.13 on can not do without a lock. A stack that is too full for the event is counted here, where
        that takes no more of it than the look whether it is on: nobody hears of it who would not while it is off."""
        if _uncounted:
            _count_lost()
        level = _level(record.levelno)
        if not is_on(level):
            return False
        try:
            passed = self.filter(record)
            if passed:
                self.emit(passed if isinstance(passed, logging.LogRecord) else record)
            return passed
        except RecursionError:
            _uncounted.append(level)
            _count_lost()
            if _HAS_TO_UNWIND:
                raise
            return False

    def emit(self, record):
        """What handle() calls. A RecursionError comes out of it, as of logging's own."""
        level = _level(record.levelno)
        try:
            _log(_Record(level, _number(record.lineno), _text(record.name), _text(self._message_of(record)),
                         _text(record.threadName), _text(record.pathname), _text(record.funcName)))
        except RecursionError:
            raise
        except Exception:  # as all of logging's handlers do; and where that is silent, the trace tells
            is_counted_above = False
            try:
                self.handleError(record)
            except RecursionError:
                if _HAS_TO_UNWIND:
                    is_counted_above = True  # by handle()
                    raise
            finally:
                if not is_counted_above:
                    _uncounted.append(level)
                    _count_lost()

    def _message_of(self, record):
        """Formatters keep what they make in the record, where those of other handlers take it for their own."""
        made = _copy_of(record)
        if made is not None:
            return self.format(made)
        kept = [(name, getattr(record, name, _ABSENT)) for name in _KEPT]
        try:
            return self.format(record)
        finally:
            _put_back(record, kept)
