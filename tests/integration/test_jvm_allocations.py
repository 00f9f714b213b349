#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 400
"""Sampled allocations: their weights sum up to what the program has allocated, of each class, whatever collects and whatever runs the code."""
import collections
import json
import math
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_jvm import BUFFERS, BUILD, PLUMB, InFolder, WithEachCollector, java, named, run, said  # noqa: E402
from recorded_jvm import setUpModule, tearDownModule  # noqa: E402, F401

WITNESS = BUILD / "tests/fixtures/libjvm_witness.so"
THREADS = 8
INTERVAL = 16384
KINDS = {"small": "Allocates$Small", "large": "Allocates$Large", "rare": "Allocates$Rare", "bytes": "[B", "longs": "[J", "texts": "[C"}
EVENT = "jvm:sampled_object_alloc"
DEVIATIONS = 5  # a correct sampler is further off once in two million times


def usual_bytes(samples):
    return collections.Counter(each["bytes"] for each in samples).most_common(1)[0][0]


class Recorded(WithEachCollector, InFolder):
    """Against what the program itself counts, with each collector, and interpreted."""

    def check_all(self, *options):
        status, output, errors = self.record(java("Allocates", str(THREADS), options=options),
                                             options=("--jvm", "-e", EVENT, "--allocation-interval", "16K"))
        self.assertEqual(status, 7, errors)
        by_class = collections.defaultdict(list)
        for each in named(self.events(), "sampled_object_alloc"):
            self.assertEqual(each["interval_bytes"], INTERVAL)
            self.assertAlmostEqual(each["weight_bytes"], each["bytes"] / -math.expm1(-each["bytes"] / INTERVAL), delta=0.6)
            by_class[each["class_name"]].append(each)
        total = estimated = variance = 0
        for kind, class_name in KINDS.items():
            size, count = usual_bytes(by_class[class_name]), int(said(output)[kind])
            samples = [each for each in by_class[class_name] if each["bytes"] == size]  # others are the JDK's
            chance = -math.expm1(-size / INTERVAL)
            spread = count * size * size * (1 - chance) / chance
            weight = sum(each["weight_bytes"] for each in samples)
            slack = THREADS * INTERVAL  # what each thread had left of its first distance
            self.assertAlmostEqual(weight, count * size, delta=DEVIATIONS * math.sqrt(spread) + slack, msg=(kind, size, len(samples)))
            total, estimated, variance = total + count * size, estimated + weight, variance + spread
        self.assertAlmostEqual(estimated, total, delta=DEVIATIONS * math.sqrt(variance) + THREADS * INTERVAL)
        print(f"{total} bytes allocated, {estimated} estimated: {100 * estimated / total - 100:+.2f} %, "
              f"deviation {100 * math.sqrt(variance) / total:.2f} %")

    def test_interpreted(self):
        self.check_all("-Xint")

    def test_compiled_by_c1(self):
        self.check_all("-XX:TieredStopAtLevel=1")

    def test_nothing_to_complain_of(self):
        """-Xcheck:jni prints where JNI is used in a way that is not allowed."""
        self.check_all("-Xcheck:jni")

    def test_each_object(self):
        """With an interval of 0, none is missing."""
        status, output, errors = run([PLUMB, "stat", "--json", "--jvm", "-e", EVENT, "--allocation-interval", "0", "--by", "class_name",
                                      "--sum", "weight_bytes", "--", *java("Allocates", "2")])
        self.assertEqual(status, 7, errors)
        counts = said(output)
        (line,) = [line for line in output.splitlines() if line.startswith("{")]
        told = {each["key"]: each for each in json.loads(line)["events"][0]["keys"]}
        for kind, size in (("small", 24), ("large", 136), ("rare", 24)):
            count = int(counts[kind])
            self.assertEqual(told[KINDS[kind]], {"key": KINDS[kind], "count": count, "sum": count * size})

    def test_call_stacks(self):
        status, _, errors = self.record(java("Allocates", "2"), options=("--jvm", "-e", EVENT, "--context", "callstack"))
        self.assertEqual(status, 7, errors)
        done = run([PLUMB, "view", "--json", self.trace])
        whose = {"Allocates$Small": "Allocates.small:", "Allocates$Large": "Allocates.large:", "[J": "Allocates.longs:"}
        looked_at = 0
        for event in map(json.loads, done[1].splitlines()):
            method = whose.get(event["fields"].get("class_name"))
            if method and any(frame.startswith("Allocates.round") for frame in event["callstack"]):
                self.assertTrue(any(frame.startswith(method) for frame in event["callstack"]), event["callstack"])
                looked_at += 1
        self.assertGreater(looked_at, 20)


class Attached(InFolder):
    def check_shares(self, events):
        """The program goes through its rounds: what it allocates of one class is so much of what it does of another."""
        weights = collections.Counter()
        for each in events:
            weights[each["class_name"]] += each["weight_bytes"]
        large, small = weights["Allocates$Large"], weights["Allocates$Small"]
        self.assertAlmostEqual(large / small, (80_000 * 136) / (400_000 * 24), delta=0.25)

    def test_again_and_again(self):
        server = self.serve("Allocates", words=("8", "serve"))
        for i in range(4):
            status, _, errors = self.attach(server, 2, "-e", EVENT, "--allocation-interval", "256K")
            self.assertEqual(status, 0, errors)
            events = named(self.events(), "sampled_object_alloc")
            self.assertEqual({each["interval_bytes"] for each in events}, {262144}, i)
            self.assertGreater(len(events), 500)
            self.check_shares(events)
        self.finish(server)

    def test_the_interval_stays_until_another_one_is_asked_for(self):
        server = self.serve("Allocates", words=("1", "serve"))
        for words, expected in (((), 524288), (("--allocation-interval", "1M"), 1 << 20), ((), 1 << 20)):
            self.assertEqual(self.attach(server, 1, "-e", EVENT, *words)[0], 0)
            events = named(self.events(), "sampled_object_alloc")
            # Where the agent was there, it is asked for them some moments before it is told of the interval.
            self.assertEqual(events[-1]["interval_bytes"], expected)
        self.finish(server)


    def test_another_agent_has_them(self):
        server = self.serve("Allocates", f"-agentpath:{WITNESS}=holds:{self.folder}", words=("1", "serve"))
        self.assertEqual(self.attach(server, 1, "-e", "jvm:*", "-e", "!jvm:exception_*")[0], 0)
        events = self.events()
        self.assertEqual([each["events"] for each in named(events, "not_available")], [EVENT])
        self.assertFalse(named(events, "sampled_object_alloc"))
        self.assertTrue(named(events, "thread_running"))
        self.finish(server)


class Words(InFolder):
    def test_what_makes_no_sense(self):
        for words in (("--jvm", "--allocation-interval", "x"), ("--jvm", "--allocation-interval", "2G"), ("--allocation-interval", "1M")):
            shutil.rmtree(self.trace, ignore_errors=True)
            status, _, errors = run([PLUMB, "record", *BUFFERS, *words, "-o", self.trace, "--", "true"])
            self.assertEqual(status, 2, errors)
            self.assertIn("--allocation-interval", errors)
            self.assertFalse(self.trace.exists())


if __name__ == "__main__":
    unittest.main()
