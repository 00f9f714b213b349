"""Tests of method entry and exit: recordings whose calls are paired."""
import collections
import pathlib

from recorded_jvm import InFolder

OTHER_JAVA = sorted(pathlib.Path("/usr/lib/jvm").glob("*-2[0-9]-*/bin/java"))
VERIFIED = ("-Xverify:all",)


def counts_of(output):
    """Also names with dots and capitals."""
    return {name: int(number) for name, number in (line.rsplit(" ", 1) for line in output.splitlines())}


def methods_words(*patterns):
    return [word for pattern in patterns for word in ("--jvm-methods", pattern)]


class Called(InFolder):
    def calls(self, events):
        """The pairs by method. Each thread's are one within another, and each end has a begin."""
        pairs, open_calls, ids = [], collections.defaultdict(list), set()
        for event in events:
            fields = event.fields
            if event.name == "jvm:method_entry":
                open_calls[fields["tid"]].append(fields)
                self.assertNotIn(fields["id"], ids)
                ids.add(fields["id"])
            elif event.name == "jvm:method_exit":
                entry = open_calls[fields["tid"]].pop()
                self.assertEqual([entry[name] for name in ("id", "class_name", "method", "signature")],
                                 [fields[name] for name in ("id", "class_name", "method", "signature")])
                pairs.append(fields)
        self.open = [call["method"] for calls in open_calls.values() for call in calls]
        return pairs
