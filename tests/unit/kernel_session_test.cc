// cmake-once
// A session of the kernel's tracing in a directory that looks like tracefs: what it writes to which file, what it makes of what
// it reads there, and what it says. The real one: tests/integration/test_kernel.py.
#include "base/file.h"
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/kernel/session_settings.h"
#include "tests/support/paused_process.h"
#include "tests/support/tracefs_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace plumb {
namespace {

using test::format_of;
using test::TracefsFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class KernelSessionTest : public testing::Test {
protected:
    KernelSessionTest() {
        folder_.add_cpu(0, {});
        put("tracing_on", "1\n");
        put("set_event_pid", "");
        put("set_event_notrace_pid", "");
        put("options/event-fork", "0\n");
        put("events/test/number/enable", "0\n");
        put("events/test/number/filter", "none\n");
    }
    void put(const std::string& name, const std::string& content) const {
        put_at(folder_.instance() + "/" + name, content);
    }
    void put_root(const std::string& name, const std::string& content) const {
        put_at(folder_.root() + "/" + name, content);
    }
    std::string content(const std::string& name) const {
        const auto text = read_small_file(folder_.instance() + "/" + name);
        return text ? *text : "(none)";
    }
    void add_event(const std::string& system, const std::string& name, int id,
                   const std::string& fields = "") const {
        const std::string folder = "events/" + system + "/" + name;
        put(folder + "/format", format_of(name, std::to_string(id), fields));
        put(folder + "/enable", "0\n");
        put(folder + "/filter", "none\n");
    }
    /* Every way to open it in which it is what a killed recorder left. */
    Result<std::unique_ptr<KernelSession>> adopt() const {
        return KernelSession::adopt_in(folder_.root(), TracefsFolder::cookie);
    }
    void open() {
        auto session = adopt();
        ASSERT_TRUE(session) << session.error().message();
        session_ = std::move(*session);
    }
    std::string refusal() const {
        const auto session = adopt();
        return session ? "" : session.error().message();
    }
    Status select(const std::vector<std::string>& patterns) {
        std::vector<KernelSelector> selectors;
        for (const std::string& pattern : patterns)
            selectors.push_back(*KernelSelector::parse(pattern));
        return session_->select(selectors);
    }
    /* With what is not in the trace in parentheses. */
    std::vector<std::string> events() const {
        std::vector<std::string> names;
        for (const KernelEvent& event : session_->events()) {
            const std::string name = event.system + ":" + event.raw_name;
            names.push_back(event.is_ours ? "(" + name + ")" : name);
        }
        return names;
    }
    std::string stats(int overrun, int dropped, int commit_overrun, int read) const {
        return "entries: 9\noverrun: " + std::to_string(overrun) +
               "\ncommit overrun: " + std::to_string(commit_overrun) +
               "\nbytes: 8\noldest event ts: 7.0\nnow ts: 8.0\ndropped events: " + std::to_string(dropped) +
               "\nread events: " + std::to_string(read) + "\n";
    }

    TracefsFolder folder_;
    std::unique_ptr<KernelSession> session_;

private:
    static void put_at(const std::string& path, const std::string& content) {
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        std::ofstream(path, std::ios::binary) << content;
    }
};

/* ---- what a killed recorder left ---- */

TEST_F(KernelSessionTest, OfAKilledRecorderIsStoppedAndKeepsItsEvents) {
    folder_.add_renames();
    put("set_event", "test:number\ntask:task_rename\nnonsense\n");
    put("buffer_size_kb", "65 (expanded: 1408)\n");
    open();
    EXPECT_TRUE(session_->is_adopted());
    EXPECT_EQ(content("tracing_on"), "0");
    EXPECT_THAT(events(), ElementsAre("test:number", "(task:task_rename)"));
    EXPECT_EQ(session_->buffer_bytes(), 65u << 10);
    EXPECT_EQ(session_->pages_per_cpu(), 16u);   /* whole ones */
    EXPECT_EQ(session_->pages_of_buffer(), 17u); /* 66560 bytes in pages that hold 4080 */
    session_.reset();
    EXPECT_TRUE(std::filesystem::exists(folder_.instance()));
    EXPECT_EQ(content("set_event"), "test:number\ntask:task_rename\nnonsense\n");
}

TEST_F(KernelSessionTest, OfAKilledRecorderIsFoundByItsCookieAlone) {
    const auto number = [&](std::uint64_t cookie) {
        const auto session = KernelSession::adopt_in(folder_.root(), cookie);
        return session ? 0 : session.error().number();
    };
    EXPECT_EQ(number(TracefsFolder::cookie + 1), ENOENT);
    std::filesystem::create_directory(folder_.root() + "/instances/plumb_r1_2_3_0000000000000000");
    EXPECT_EQ(number(0), ENOENT);
    open();
    auto other = std::async(std::launch::async, [&] { return number(TracefsFolder::cookie); });
    std::this_thread::sleep_for(
        std::chrono::milliseconds(30)); /* whoever has it only looks may let go of it */
    session_.reset();
    EXPECT_EQ(other.get(), 0);
    EXPECT_FALSE(KernelSession::adopt_in(folder_.root() + "/missing", 1));
}

TEST_F(KernelSessionTest, WithoutWhatEveryInstanceHasIsRefused) {
    std::filesystem::remove(folder_.instance() + "/set_event");
    EXPECT_THAT(refusal(), HasSubstr("set_event"));
    put("set_event", "test:missing\n");
    EXPECT_THAT(refusal(), HasSubstr("events/test/missing/format"));
    put("set_event", "");
    EXPECT_EQ(refusal(), "");
    std::filesystem::remove_all(folder_.instance() + "/per_cpu");
    EXPECT_THAT(refusal(), HasSubstr("has no per-CPU buffers"));
}

TEST_F(KernelSessionTest, HasTheCpusWhoseBuffersThereAreInTheirOrder) {
    for (const unsigned cpu : {10, 2, 1})
        folder_.add_cpu(cpu, {});
    for (const char* const name : {"cpu", "cpux", "cpu3x", "xcpu4", "5"})
        put(std::string("per_cpu/") + name + "/stats", "");
    open();
    EXPECT_THAT(session_->cpus(), ElementsAre(0, 1, 2, 10));
    EXPECT_TRUE(session_->open_raw(10));
    const auto missing = session_->open_raw(3);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().number(), ENOENT);
    EXPECT_THAT(missing.error().message(), HasSubstr("per_cpu/cpu3/trace_pipe_raw"));
}

TEST_F(KernelSessionTest, KnowsTheFormOfTheKernelsPages) {
    const auto header = [&](const std::string& commit, const std::string& data) {
        put("events/header_page",
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;" + commit +
                "\tsigned:1;\n\tfield: int overwrite;\toffset:16;\tsize:1;\tsigned:1;\n"
                "\tfield: char data;" +
                data + "\tsigned:1;\n");
    };
    header("\toffset:8;\tsize:4;", "\toffset:12;\tsize:65524;");
    open();
    EXPECT_EQ(session_->page_format().commit_offset, 8u);
    EXPECT_EQ(session_->page_format().commit_bytes, 4u);
    EXPECT_EQ(session_->page_format().data_offset, 12u);
    EXPECT_EQ(session_->page_bytes(), 65536u);
    session_.reset();
    const std::string good = "\toffset:8;\tsize:8;";
    header(good, "\toffset:16;\tsize:1048560;"); /* a megabyte */
    EXPECT_EQ(refusal(), "");
    header(good, "\toffset:16;\tsize:1;");
    EXPECT_EQ(refusal(), "");
    for (const auto& [commit, data] :
         {std::pair<std::string, std::string>(good, "\toffset:16;\tsize:1048561;"),
          {good, "\toffset:16;\tsize:0;"},
          {good, "\toffset:16;"},
          {"\toffset:8;\tsize:2;", "\toffset:16;\tsize:4080;"},
          {"\toffset:8;\tsize:16;", "\toffset:16;\tsize:4080;"},
          {"\toffset:8;", "\toffset:16;\tsize:4080;"}}) {
        header(commit, data);
        EXPECT_THAT(refusal(), AllOf(HasSubstr("pages of a form that is not known"), HasSubstr(commit)));
    }
    std::filesystem::remove(folder_.instance() + "/events/header_page");
    EXPECT_THAT(refusal(), HasSubstr("header_page"));
}

TEST_F(KernelSessionTest, HasNoReaderBesideItWhereItsClockIsNotSaid) {
    open();
    EXPECT_THAT(session_->open_reader("x").error().message(), HasSubstr("trace_clock"));
    for (const char* const clocks : {"local mono\n", "local [mono\n", "local mono]\n", "]mono[\n"}) {
        put("trace_clock", clocks);
        EXPECT_THAT(session_->open_reader("x").error().message(),
                    EndsWith("trace_clock does not say which clock is used."));
    }
    put("trace_clock", "local [mono] boot\n");
    /* Nothing is there but what the kernel would make; what was made is taken back. */
    EXPECT_THAT(session_->open_reader("x").error().message(),
                AllOf(HasSubstr("_x/tracing_on"), HasSubstr(folder_.root())));
    std::size_t instances = 0;
    for ([[maybe_unused]] const auto& each :
         std::filesystem::directory_iterator(folder_.root() + "/instances"))
        instances++;
    EXPECT_EQ(instances, 1u);
}

/* ---- strings of system calls ---- */

class LeftTextsTest : public KernelSessionTest {
protected:
    LeftTextsTest() {
        const std::string text = "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"
                                 "\tfield:const char * filename;\toffset:16;\tsize:8;\tsigned:0;\n";
        for (const char* const name : {"sys_enter_chdir", "sys_exit_chdir", "sys_enter_no_such_call"})
            add_event("syscalls", name, 60 + id_++, text);
        add_event("bpf_trace", "bpf_trace_printk", 59,
                  "\tfield:__data_loc char[] bpf_string;\toffset:8;\tsize:4;\tsigned:0;\n");
        put("set_event", "bpf_trace:bpf_trace_printk\nsyscalls:sys_enter_chdir\nsyscalls:sys_exit_chdir\n"
                         "syscalls:sys_enter_no_such_call\n");
    }
    /* "(event) field: type" of each. */
    std::vector<std::string> adopted(const std::string& filter) {
        session_.reset();
        put("events/bpf_trace/bpf_trace_printk/filter", filter);
        put("events/syscalls/sys_enter_chdir/filter", filter);
        open();
        std::vector<std::string> all;
        for (const KernelEvent& event : session_->events()) {
            std::string text = event.is_ours ? "(" + event.raw_name + ")" : event.raw_name;
            for (const EventField& field : event.description.fields)
                text += " " + field.name + ":" + field.type_name();
            all.push_back(text);
        }
        return all;
    }
    int id_ = 0;
};

TEST_F(LeftTextsTest, AreKnownByTheFilterOfWhatTellsThem) {
    const std::string filter =
        "bpf_string ~ \"" + std::filesystem::path(folder_.instance()).filename().string() + " *\"";
    const std::string late = "syscall_late_text call:string argument:string text:string";
    const std::string chdir = "sys_enter_chdir filename:", others = "filename:x64";
    for (const char* const end : {"", "\n"})
        EXPECT_THAT(adopted(filter + end),
                    ElementsAre(late, "(bpf_trace_printk) bpf_string:string", chdir + "string",
                                "sys_exit_chdir " + others, "sys_enter_no_such_call " + others));
    EXPECT_THAT(adopted(filter + " || (common_pid >= 0)\n"),
                ElementsAre(late, "bpf_trace_printk bpf_string:string", chdir + "string",
                            "sys_exit_chdir " + others, "sys_enter_no_such_call " + others));
    for (const std::string& other :
         {std::string("none\n"), "x" + filter, std::string("bpf_string ~ \"plumb_r1 *\"")})
        EXPECT_THAT(adopted(other),
                    ElementsAre("bpf_trace_printk bpf_string:string", chdir + "x64",
                                "sys_exit_chdir " + others, "sys_enter_no_such_call " + others));
}

/* ---- counts ---- */

TEST_F(KernelSessionTest, TellsOfEventsWhatTheKernelCountsOfEachCpu) {
    folder_.add_cpu(1, {});
    put("per_cpu/cpu0/stats", stats(1, 20, 300, 4000));
    put("per_cpu/cpu1/stats", stats(5, 6, 7, 8));
    open();
    const auto told = [&](std::uint32_t cpu) {
        const KernelCounts counts = session_->counts(cpu);
        return fmt::format("{} overwritten, {} dropped, {} read", counts.overrun, counts.dropped,
                           counts.read);
    };
    /* What was read before is in a trace that there is already. */
    EXPECT_EQ(told(0), "1 overwritten, 320 dropped, 0 read");
    EXPECT_EQ(told(1), "5 overwritten, 13 dropped, 0 read");
    put("per_cpu/cpu0/stats", stats(2, 30, 400, 4005));
    EXPECT_EQ(told(0), "2 overwritten, 430 dropped, 5 read");
    session_->leave_out(0, {1, 100, 3});
    EXPECT_EQ(told(0), "1 overwritten, 330 dropped, 2 read");
    session_->leave_out(0, {2, 500, 4}); /* more than there were: nothing is left */
    EXPECT_EQ(told(0), "0 overwritten, 0 dropped, 0 read");
    EXPECT_EQ(told(1), "5 overwritten, 13 dropped, 0 read");
    std::filesystem::remove(folder_.instance() + "/per_cpu/cpu1/stats");
    EXPECT_EQ(told(1), "5 overwritten, 13 dropped, 0 read"); /* the last that is known */
    EXPECT_EQ(told(7), "0 overwritten, 0 dropped, 0 read");
    put("per_cpu/cpu1/stats", "dropped events:   17\n");
    EXPECT_EQ(told(1), "0 overwritten, 17 dropped, 0 read");
}

TEST_F(KernelSessionTest, SaysOnceThatSomebodyElseHasEmptiedItsBuffers) {
    folder_.add_cpu(1, {});
    open();
    std::string said;
    const auto is_whole = [&](const std::string& of_second, bool expected) {
        put("per_cpu/cpu1/stats", of_second);
        const Status whole = session_->check_emptied();
        said = whole ? "" : whole.error().message();
        return static_cast<bool>(whole) == expected && session_->was_emptied() != expected;
    };
    EXPECT_TRUE(is_whole("entries: 100\noverrun: 0\nread events: 0\n", true));
    EXPECT_TRUE(is_whole("entries: 150\noverrun: 0\nread events: 0\n", true));
    EXPECT_TRUE(is_whole("entries: 20\noverrun: 40\nread events: 90\n", true))
        << "all of them are still there";
    std::filesystem::remove(folder_.instance() + "/per_cpu/cpu0/stats");
    EXPECT_TRUE(is_whole("entries: 40\noverrun: 10\nread events: 0\n", false));
    EXPECT_THAT(said, AllOf(HasSubstr("Somebody else has emptied the kernel's buffers"),
                            HasSubstr("`trace-cmd clear -a`"), HasSubstr("a module is unloaded")));
    EXPECT_TRUE(session_->check_emptied()) << "it was said";
}

TEST(CountsWatch, SeesThatABufferWasEmptied) {
    using Looks = std::vector<KernelCounts>; /* overwritten, dropped, read, unread */
    const auto last_is_emptied = [](const Looks& looks) {
        CountsWatch watch;
        for (std::size_t i = 0; i + 1 < looks.size(); i++)
            EXPECT_FALSE(watch.has_been_emptied(looks[i])) << i;
        return watch.has_been_emptied(looks.back());
    };
    EXPECT_TRUE(last_is_emptied({{0, 0, 0, 100}, {0, 0, 0, 99}})) << "a flight recorder that was never full";
    EXPECT_TRUE(last_is_emptied({{10, 0, 0, 100}, {9, 0, 0, 500}}));
    EXPECT_TRUE(last_is_emptied({{0, 10, 0, 100}, {0, 9, 0, 500}}));
    EXPECT_TRUE(last_is_emptied({{0, 0, 10, 100}, {0, 0, 9, 500}}));
    EXPECT_FALSE(last_is_emptied({{0, 0, 0, 100}, {0, 0, 100, 0}, {0, 0, 100, 0}}));
    EXPECT_FALSE(last_is_emptied({{0, 0, 0, 100}, {80, 0, 0, 100}, {80, 3, 0, 21}}))
        << "a page was overwritten between what the kernel told of the unread and of the overwritten";
}

/* ---- whose events ---- */

TEST_F(KernelSessionTest, IsLimitedToThreadsOfProcessesAndToWhatTheyStart) {
    open();
    test::PausedProcess child;
    const auto id = static_cast<std::uint32_t>(child.id());
    ASSERT_TRUE(session_->limit_to({id}));
    EXPECT_EQ(content("options/event-fork"), "1");
    /* A number that no thread has keeps the list from being everybody's; what is written is put behind it. */
    EXPECT_EQ(content("set_event_pid"), "4194304" + std::to_string(id));
    put("set_event_pid", "4194304\n");
    EXPECT_THAT(*session_->listed_threads(), IsEmpty());
    ASSERT_TRUE(session_->add({id}));
    EXPECT_EQ(content("set_event_pid"), "4194304\n" + std::to_string(id));
    EXPECT_THAT(*session_->listed_threads(), ElementsAre(id));
    ASSERT_TRUE(session_->add({id})); /* it is there already */
    EXPECT_EQ(content("set_event_pid"), "4194304\n" + std::to_string(id));
    child.end();
    put("set_event_pid", "");
    ASSERT_TRUE(session_->add({id})); /* nobody is left */
    EXPECT_EQ(content("set_event_pid"), "");
    std::filesystem::remove(folder_.instance() + "/set_event_pid");
    EXPECT_FALSE(session_->add({id}));
    EXPECT_FALSE(session_->limit_to({id}));
    EXPECT_FALSE(session_->listed_threads());
    put("set_event_pid", "");
    std::filesystem::remove(folder_.instance() + "/options/event-fork");
    EXPECT_FALSE(session_->limit_to({id}));
}

TEST_F(KernelSessionTest, HidesThreadsAndShowsThemAgain) {
    open();
    put("set_event_notrace_pid", "no pid\n");
    EXPECT_THAT(*session_->hidden_threads(), IsEmpty());
    put("set_event_notrace_pid", "5\n");
    ASSERT_TRUE(session_->hide({31, 7}));
    EXPECT_EQ(content("set_event_notrace_pid"), "5\n7 31");
    EXPECT_THAT(*session_->hidden_threads(), ElementsAre(5, 7, 31));
    ASSERT_TRUE(session_->hide({}));
    ASSERT_TRUE(session_->show({8}));
    EXPECT_EQ(content("set_event_notrace_pid"), "5\n7 31"); /* as it was */
    ASSERT_TRUE(session_->show({7, 8}));
    EXPECT_EQ(content("set_event_notrace_pid"), "5 31"); /* written anew */
    EXPECT_THAT(*session_->machine_numbers_of({9, 3, 9}), ElementsAre(3, 9));
    put("options/event-fork", "0\n");
    ASSERT_TRUE(session_->leave_out_self());
    EXPECT_THAT(content("set_event_notrace_pid"), std::to_string(::getpid()));
    EXPECT_EQ(content("options/event-fork"), "0\n") << "a command is still to be started";
    ASSERT_TRUE(session_->leave_out_later_threads());
    EXPECT_EQ(content("options/event-fork"), "1");
    EXPECT_THAT(content("set_event_notrace_pid"), std::to_string(::getpid()));
    put("set_event_notrace_pid", "5\n");
    ASSERT_TRUE(session_->leave_out_later_threads());
    EXPECT_THAT(content("set_event_notrace_pid"), "5\n" + std::to_string(::getpid()));
    std::filesystem::remove(folder_.instance() + "/set_event_notrace_pid");
    EXPECT_FALSE(session_->show({7}));
    EXPECT_FALSE(session_->hide({7}));
    EXPECT_FALSE(session_->hidden_threads());
    EXPECT_TRUE(session_->hide({}));
}

/* ---- settings that somebody else may change ---- */

class SessionSettingsTest : public KernelSessionTest {
protected:
    SessionSettingsTest() {
        put("trace_clock", "local [mono]\n");
        put("tracing_cpumask", "3\n");
        put("trace_options", "print-parent\nnooverwrite\n");
        put("buffer_subbuf_size_kb", "4\n");
        add_event("sched", "sched_switch", 7);
        KernelEvent event;
        event.system = "sched";
        event.raw_name = "sched_switch";
        settings_ = SessionSettings(folder_.instance(), {event});
    }
    SessionSettings settings_;
};

TEST_F(SessionSettingsTest, AreToldWithWhatTheyWereAndAre) {
    EXPECT_TRUE(settings_.is_running());
    EXPECT_EQ(settings_.changes(), "");
    put("tracing_cpumask", "1\n");
    EXPECT_EQ(settings_.changes(), "tracing_cpumask (3, now 1)");
    put("tracing_on", "0\n");
    EXPECT_FALSE(settings_.is_running());
    EXPECT_EQ(settings_.changes(), "tracing_on (1, now 0), tracing_cpumask (3, now 1)");
    put("trace_options", "print-parent\noverwrite\n"); /* of many lines */
    EXPECT_EQ(settings_.changes(), "tracing_on (1, now 0), tracing_cpumask (3, now 1), trace_options");
    put("events/sched/sched_switch/filter", "prev_pid == 1\n");
    EXPECT_EQ(settings_.changes(),
              "tracing_on (1, now 0), tracing_cpumask (3, now 1), trace_options, and 1 more");
    put("set_event", "\n");
    EXPECT_EQ(settings_.changes(), "tracing_on (1, now 0), tracing_cpumask (3, now 1), set_event, and 2 more")
        << "in the order of the files";
}

TEST_F(SessionSettingsTest, AreOfTheSizeOfPages) {
    put("buffer_subbuf_size_kb", "64\n");
    EXPECT_EQ(settings_.changes(), "buffer_subbuf_size_kb (4, now 64)");
}

TEST_F(SessionSettingsTest, ThatWeHaveChangedAreNoChange) {
    put("trace_options", "print-parent\nevent-fork\n");
    put("set_event", "\n");
    settings_.know("trace_options");
    settings_.know("nothing");
    EXPECT_EQ(settings_.changes(), "set_event");
}

TEST_F(SessionSettingsTest, ThatAreLongAreNamedAndThoseThatCanNotBeReadAreNot) {
    put("buffer_size_kb", std::string(40, '1') + "\n");
    EXPECT_EQ(settings_.changes(), "buffer_size_kb (64, now " + std::string(40, '1') + ")");
    put("buffer_size_kb", std::string(41, '1') + "\n");
    EXPECT_EQ(settings_.changes(), "buffer_size_kb");
    put("buffer_size_kb", "65"); /* no whole line */
    EXPECT_EQ(settings_.changes(), "buffer_size_kb");
    std::filesystem::remove(folder_.instance() + "/buffer_size_kb");
    EXPECT_EQ(settings_.changes(), "");
    std::filesystem::remove(folder_.instance() + "/tracing_on");
    EXPECT_TRUE(settings_.is_running());
    EXPECT_EQ(SessionSettings().changes(), "");
    EXPECT_TRUE(SessionSettings().is_running());
}

TEST_F(KernelSessionTest, SaysOnceThatSomebodyElseHasStoppedIt) {
    open();
    put("events/enable", "X\n");
    ASSERT_TRUE(session_->start());
    EXPECT_EQ(content("tracing_on"), "1");
    EXPECT_TRUE(session_->check_running());
    put("tracing_on", "0\n");
    const Status stopped = session_->check_running();
    ASSERT_FALSE(stopped);
    EXPECT_THAT(stopped.error().message(), AllOf(HasSubstr("Somebody else has changed the kernel's tracing"),
                                                 HasSubstr(": tracing_on (1, now 0). ")));
    EXPECT_TRUE(session_->check_running());
    EXPECT_TRUE(session_->stop()) << "it was said";
    EXPECT_EQ(content("tracing_on"), "0");
    EXPECT_EQ(content("events/enable"), "0");
    ASSERT_TRUE(session_->start());
    put("set_event", "\n");
    const Status changed = session_->stop();
    EXPECT_TRUE(changed) << "of one that was stopped already nothing more is said";
    EXPECT_TRUE(session_->stop());
}

TEST_F(KernelSessionTest, SaysWhatSomebodyElseHasChanged) {
    open();
    put("events/enable", "X\n");
    ASSERT_TRUE(session_->start());
    EXPECT_TRUE(session_->stop());
    ASSERT_TRUE(session_->start());
    put("set_event", "\n");
    EXPECT_TRUE(session_->check_running());
    const Status changed = session_->stop();
    ASSERT_FALSE(changed);
    EXPECT_THAT(changed.error().message(), HasSubstr(": set_event. "));
    EXPECT_EQ(content("tracing_on"), "0");
    std::filesystem::remove(folder_.instance() + "/events/enable");
    EXPECT_FALSE(session_->stop());
    std::filesystem::remove(folder_.instance() + "/tracing_on");
    EXPECT_THAT(session_->stop().error().message(), HasSubstr("tracing_on"));
    EXPECT_FALSE(session_->start());
}

} // namespace
} // namespace plumb
