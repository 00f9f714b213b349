// What a tracepoint promises: exact values of every field type, from C and C++, from every place a program
// can trace in; nothing evaluated when it is off. What is cut or lost: tracepoint_losses_test.cc.
// cmake-link: plumb::tp-async_static kinds_c
#include "tests/fixtures/kinds_events.h"
#include "tests/support/tracepoint_fixture.h"

#include <plumb/clock.h>
#include <plumb/control.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace plumb::test;
using testing::ElementsAre;

namespace {

const char* const integers_in_c =
    "kinds:integers a=-128 b=-32768 c=-2147483648 d=-9223372036854775808 e=255 f=65535 "
    "g=4294967295 h=18446744073709551615 i=0xfe j=0xfedc k=0xfedcba98 "
    "l=0xfedcba9876543210 m=-7 n=7 o=-70000000000 p=70000000000 q=120 r=-2";

template <typename T>
void trace_in_template(T value) {
    plumb_trace(kinds, number, static_cast<uint64_t>(value));
}

inline void trace_inline(uint64_t value) {
    plumb_trace(kinds, number, value);
}

} // namespace

// Ours is in front of the C library's.
TEST(SystemCalls, pass_on_every_argument) {
    void* const memory = reinterpret_cast<void*>(
        ::syscall(SYS_mmap, nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED) << strerror(errno);
    EXPECT_EQ(::munmap(memory, 8192), 0);
}

TEST_F(Tracepoint, records_exact_values_from_c) {
    on();
    trace_kinds_in_c();
    std::string many = "kinds:many";
    for (int i = 1; i <= 32; i++)
        many += " f" + std::to_string(i) + "=" + std::to_string(i);
    EXPECT_THAT(
        records(),
        ElementsAre(
            integers_in_c,
            "kinds:others a=0.5 b=-1.25 c=3.5 d=1.0000000000000001e+300 e=1 f=0 g=0x1234 h=0x0",
            std::string("kinds:strings a=alpha between=7 b= c=te\0xt d=(null)", 51),
            "kinds:lists a=[1 2 65535] b=[0xab 0x0] c=[-1 0 1 -2147483648] d=[0x8000000000000001] end=9",
            "kinds:lists a=[0 0 0] b=[0xab 0x0] c=[] d=[] end=9", "kinds:labels a=200(old) b=-5(minus five)",
            "kinds:ranges a=9(low) b=-9223372036854775808(minus) c=3(three)", "kinds:empty",
            "kinds:grave id=42", many, "kinds:mark id=17 path=/tmp ratio=0.75 arg3=0x10"));
    EXPECT_EQ(describe_event(*channel_, find_event(*channel_, "kinds:grave")).log_level, PLUMB_ERR);
    EXPECT_EQ(describe_event(*channel_, find_event(*channel_, "kinds:empty")).log_level, PLUMB_DEBUG_LINE);
    EXPECT_EQ(channel_->lost(PLUMB_CUT), 0u);
}

TEST_F(Tracepoint, takes_strings_and_enumerations_of_cpp) {
    enum class State : uint8_t { fresh = 0, old = 200 };
    enum Plain : int { minus = -5 };
    on();
    const std::string owned(300, 'y'); // does not fit the stack buffer
    const std::string_view part = std::string_view("abcdef").substr(1, 3);
    plumb_trace(kinds, strings, part, 1, owned, "text", 4, std::string("end"));
    plumb_trace(kinds, strings, std::string_view("a\0b", 3), 1, std::string_view(), "", 0, "");
    plumb_trace(kinds, labels, State::old, minus);
    plumb_trace(kinds, ranges, State::old, 0, 4);
    EXPECT_THAT(records(), ElementsAre("kinds:strings a=bcd between=1 b=" + owned + " c=text d=end",
                                       "kinds:strings a=a between=1 b= c= d=",
                                       "kinds:labels a=200(old) b=-5(minus five)",
                                       "kinds:ranges a=200(high) b=0(zero) c=4"));
}

TEST_F(Tracepoint, is_one_event_from_c_and_cpp_and_templates) {
    on();
    trace_number_in_c(1);
    trace_in_template<int>(2);
    trace_in_template<char>(3);
    trace_inline(4);
    EXPECT_THAT(records(), ElementsAre(number(1), number(2), number(3), number(4)));
    uint32_t described = 0;
    for (uint32_t id = 1; id < channel_->header().event_slots; id++)
        described += describe_event(*channel_, id).name == "kinds:number";
    EXPECT_EQ(described, 1u);
}

TEST_F(Tracepoint, evaluates_nothing_when_it_is_off) {
    EXPECT_FALSE(plumb_enabled(kinds, number));
    EXPECT_EQ(count_evaluations_in_c(), 0);
    on({{"kinds:*"},
        {.pattern = "kinds:number", .flags = PLUMB_RULE_EXCLUDE},
        {.pattern = "kinds:evaluated", .flags = PLUMB_RULE_EXCLUDE}});
    EXPECT_FALSE(plumb_enabled(kinds, number));
    EXPECT_TRUE(plumb_enabled(kinds, empty));
    EXPECT_EQ(count_evaluations_in_c(), 0);
    apply(state_.set(0, channel_->cookie(), {{"kinds:number"}, {"kinds:eval*"}}));
    EXPECT_TRUE(plumb_enabled(kinds, number));
    EXPECT_FALSE(plumb_enabled(kinds, empty));
    EXPECT_EQ(count_evaluations_in_c(), 2);
    EXPECT_EQ(records().size(), 2u);
}

TEST_F(Tracepoint, follows_rules_by_level_process_and_executable) {
    const auto pid = static_cast<uint32_t>(getpid());
    on({{.pattern = "*", .log_level = PLUMB_WARNING}});
    EXPECT_TRUE(plumb_enabled(kinds, grave));
    EXPECT_FALSE(plumb_enabled(kinds, empty));
    on({{.pattern = "*", .log_level_from = PLUMB_WARNING}});
    EXPECT_FALSE(plumb_enabled(kinds, grave));
    EXPECT_TRUE(plumb_enabled(kinds, empty));
    const struct {
        TestRule rule;
        bool expected;
    } cases[] = {
        {{.pattern = "*", .log_level = PLUMB_DEBUG_LINE, .log_level_from = PLUMB_WARNING}, true},
        {{.pattern = "*", .log_level = PLUMB_DEBUG, .log_level_from = PLUMB_DEBUG}, false},
        {{.pattern = "*", .who = PLUMB_WHO_PROCESS, .who_id = pid + 1, .log_level_from = PLUMB_WARNING},
         false},
        {{.pattern = "*", .who = PLUMB_WHO_PROCESS, .who_id = pid}, true},
        {{.pattern = "*", .who = PLUMB_WHO_PROCESS, .who_id = pid + 1}, false},
        {{.pattern = "*", .who = PLUMB_WHO_USER, .who_id = getuid()}, true},
        {{.pattern = "*", .who = PLUMB_WHO_USER, .who_id = getuid() + 1}, false},
        {{.pattern = "*", .who = PLUMB_WHO_EXECUTABLE, .executable = "unit_trace*"}, true},
        {{.pattern = "*", .who = PLUMB_WHO_EXECUTABLE, .executable = "*/unit_tracepoint"}, true},
        {{.pattern = "*", .who = PLUMB_WHO_EXECUTABLE, .executable = "memcached"}, false},
        {{.pattern = "*", .who = PLUMB_WHO_LAUNCHED}, false},
        {{.pattern = "*", .who = 99}, false},
        {{.pattern = "kinds:empt?"}, true},
        {{.pattern = "kinds"}, false},
    };
    for (const auto& [rule, expected] : cases) {
        apply(state_.set(0, channel_->cookie(), {rule}));
        EXPECT_EQ(plumb_enabled(kinds, empty) != 0, expected) << rule.pattern << " who " << int{rule.who};
    }
}

TEST_F(Tracepoint, writes_to_every_session_that_wants_it) {
    on();
    TestChannel other;
    apply(state_.set(3, other.cookie(), {{"kinds:number"}}));
    trace_number_in_c(1);
    trace_kinds_in_c();
    EXPECT_EQ(records().size(), 12u);
    uint32_t in_other = 0;
    RecordReader reader(other,
                        [&](const SeenRecord& record) { in_other += show(other, record) == number(1); });
    EXPECT_EQ(reader.poll(), 1u);
    EXPECT_EQ(in_other, 1u);
    apply(state_.remove(3));
}

TEST_F(Tracepoint, keeps_errno) {
    on();
    for (int i = 0; i < 2000; i++) { // sub-buffers are entered, and the ring gets full
        errno = 4711;
        trace_number_in_c(1);
        plumb_trace(kinds, strings, std::string(2000, 'x'), 1, "", "", 0, "");
        ASSERT_EQ(errno, 4711);
    }
}

#if !defined(__SANITIZE_ADDRESS__) /* with which reading such a bool ends the program */
// Compilers count on a bool's byte to be 0 or 1, and one that was never set, or lies in damaged memory, has any.
TEST_F(Tracepoint, records_what_is_no_truth_as_one_or_the_other) {
    on();
    unsigned char byte = 2;
    __asm__("" : "+m"(byte));
    bool neither;
    std::memcpy(&neither, &byte, 1);
    plumb_trace(kinds, others, 0, 0, 0, 0, neither, true, nullptr, nullptr);
    plumb_mark(kinds, neither, "b %d", neither);
    ASSERT_EQ(records().size(), 2u);
    EXPECT_THAT(records()[0], testing::AnyOf(testing::HasSubstr(" e=0 f=1"), testing::HasSubstr(" e=1 f=1")));
    EXPECT_THAT(records()[1], testing::AnyOf(testing::EndsWith(" b=0"), testing::EndsWith(" b=1")));
}
#endif

// It could have been cut, had there been a second buffer: its length is not what a user can do something about.
// Readers tell losses beside the records of the ring that counts them.
TEST_F(Tracepoint, does_not_read_behind_a_string) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    auto* start = static_cast<char*>(
        mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(start + page, page);
    ChannelShape shape;
    shape.subbuf_bytes = 16384; // takes two of them in one record
    for (size_t length = 0; length < 600; length++) {
        on({{"kinds:*"}}, shape);
        memset(start, 's', page);
        const char* view = start + page - length;
        plumb_trace(kinds, strings, std::string_view(view, length), 1, "", view, length, "");
        start[page - 1] = '\0';
        const char* text = start + page - 1 - length;
        plumb_trace(kinds, strings, text, 1, "", "", 0, "");
        const std::string expected(length, 's');
        ASSERT_THAT(records(),
                    ElementsAre("kinds:strings a=" + expected + " between=1 b= c=" + expected + " d=",
                                "kinds:strings a=" + expected + " between=1 b= c= d="))
            << length;
    }
    munmap(start, page);
}

TEST_F(Tracepoint, copies_strings_of_every_length_and_alignment) {
    ChannelShape shape;
    shape.subbuf_count = 64;
    char buffer[700];
    for (size_t offset = 0; offset < 33; offset++) {
        on({{"kinds:*"}}, shape);
        std::vector<std::string> expected;
        for (size_t length = 0; length < 300; length += 1 + length / 40) {
            for (size_t i = 0; i < length; i++)
                buffer[offset + i] = static_cast<char>('a' + i % 26);
            buffer[offset + length] = '\0';
            memset(buffer + offset + length + 1, '!', 40);
            plumb_trace(kinds, strings, buffer + offset, 1, buffer + offset, "", 0, "x");
            const std::string text(buffer + offset);
            expected.push_back("kinds:strings a=" + text + " between=1 b=" + text + " c= d=x");
        }
        ASSERT_EQ(records(), expected) << offset;
    }
}

namespace {
void trace_in_handler(int) {
    plumb_trace(kinds, number, 77);
}
} // namespace

TEST_F(Tracepoint, works_in_signal_handlers_and_at_thread_exit) {
    on();
    signal(SIGUSR1, trace_in_handler);
    raise(SIGUSR1);
    std::thread([] {
        struct AtExit {
            ~AtExit() { plumb_trace(kinds, number, 1); }
        };
        static thread_local AtExit at_exit;
        (void)&at_exit;
        static pthread_key_t key;
        pthread_key_create(&key, [](void*) { plumb_trace(kinds, number, 2); });
        pthread_setspecific(key, &key);
    }).join();
    EXPECT_THAT(records(), testing::UnorderedElementsAre(number(77), number(1), number(2)));
}

TEST_F(Tracepoint, works_in_children_of_every_kind) {
    on();
    const auto wait_for_child = [](pid_t child) {
        int status = 1;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    };
    pid_t children[4];
    const auto be_child = [](uint64_t n) {
        plumb_trace(kinds, number, n);
        _exit(0);
    };
    if ((children[0] = fork()) == 0) be_child(1);
    wait_for_child(children[0]);
    if ((children[1] = _Fork()) == 0) be_child(2);
    wait_for_child(children[1]);
    if ((children[2] = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0))) == 0)
        be_child(3);
    wait_for_child(children[2]);
    EXPECT_THAT(records(), ElementsAre(number(1), number(2), number(3)));
    // Each under its own number.
    EXPECT_THAT(threads_, testing::UnorderedElementsAre(children[0], children[1], children[2]));
    if ((children[3] = vfork()) == 0) {
        plumb_trace(kinds, number, 4);
        _exit(0);
    }
    wait_for_child(children[3]);
    trace_number_in_c(5);
    EXPECT_EQ(records().size(), 5u);
}

// A program that locks all that it maps would pay for all that a ring may ever need.
TEST_F(Tracepoint, fills_no_channel_of_a_program_that_locks_its_memory) {
    const auto bytes_of = [](const TestChannel& channel) {
        struct stat info {};
        stat(channel.path().c_str(), &info);
        return static_cast<uint64_t>(info.st_blocks) * 512;
    };
    ChannelShape shape;
    shape.subbuf_count = 64;
    shape.extra_ring_count = 1;
    channel_ = std::make_unique<TestChannel>(shape);
    const auto data_offset = static_cast<off_t>(channel_->header().data_offset);
    const int fd = open(channel_->path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, data_offset,
                        static_cast<off_t>(channel_->header().total_bytes) - data_offset),
              0);
    close(fd);
    const uint64_t before = bytes_of(*channel_);
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const bool has_room = geteuid() == 0 || limit.rlim_cur >= 2 * channel_->header().total_bytes;
    if (!has_room || mlockall(MCL_FUTURE) != 0) GTEST_SKIP() << "it may not lock so much memory";
    const uint64_t generation = state_.set(0, channel_->cookie(), {{"kinds:*"}});
    apply(generation);
    munlockall();
    EXPECT_TRUE(plumb_enabled(kinds, number));
    EXPECT_EQ(bytes_of(*channel_), before);
    trace_number_in_c(1);
    EXPECT_THAT(records(), ElementsAre(number(1)));
}

#if !defined(__SANITIZE_THREAD__)
// A fork that runs no handlers, where it is not the thread that forked which notices.
TEST_F(Tracepoint, is_of_the_child_behind_another_thread_that_noticed_the_fork) {
    on();
    trace_number_in_c(0);
    const pid_t child = _Fork();
    if (child == 0) {
        std::thread([] { plumb_trace(kinds, number, 1); }).join();
        plumb_trace(kinds, number, 2);
        plumb_trace(kinds, number, 3);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_THAT(records(), ElementsAre(number(0), number(1), number(2), number(3)));
    ASSERT_EQ(threads_.size(), 4u);
    EXPECT_EQ(std::count(threads_.begin(), threads_.end(), static_cast<uint32_t>(child)), 2);
    EXPECT_EQ(std::count(threads_.begin(), threads_.end(), static_cast<uint32_t>(gettid())), 1);
}
#endif

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(Tracepoint, in_a_child_of_vfork_follows_no_rules) {
    const auto session_count = [] {
        plumb_status status;
        plumb_get_status(&status);
        return status.session_count;
    };
    on();
    const TestChannel other;
    state_.set(1, other.cookie(), {{"kinds:*"}}); // nobody is signalled
    const pid_t child = vfork();
    if (child == 0) {
        plumb_trace(kinds, number, 1);
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    EXPECT_EQ(session_count(), 1u);
    trace_number_in_c(2); // by the slow path, behind vfork()
    EXPECT_EQ(session_count(), 2u);
    EXPECT_THAT(records(), ElementsAre(number(1), number(2)));
    apply(state_.remove(1));
}

TEST_F(Tracepoint, in_a_child_of_vfork_is_nobody_that_notices_a_fork) {
    on();
    const pid_t child = _Fork();
    if (child == 0) {
        if (vfork() == 0) {
            plumb_trace(kinds, number, 1);
            _exit(0);
        }
        wait(nullptr);
        plumb_trace(kinds, number, 2);
        _exit(state_.slot_of(static_cast<uint32_t>(getpid())) != nullptr ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "it has no slot";
    EXPECT_THAT(records(), ElementsAre(number(1), number(2)));
}
#endif
