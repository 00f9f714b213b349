// cmake-once
// What /proc tells of a process and of its threads: each number as who asks knows it of himself or of a child.
#include "base/mapped_file.h"
#include "base/processes.h"

#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace plumb {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::Not;

std::uint32_t own_id() {
    return static_cast<std::uint32_t>(::getpid());
}

std::uint32_t own_thread_id() {
    return static_cast<std::uint32_t>(::gettid());
}

/* A child that waits; `before_it_waits` is done in it. */
class WaitingChild {
public:
    explicit WaitingChild(const std::function<void()>& before_it_waits = {}) {
        std::array<int, 2> ready{};
        EXPECT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (before_it_waits) before_it_waits();
            (void)!::write(ready[1], "", 1);
            for (;;)
                ::pause();
        }
        ::close(ready[1]);
        char byte = 0;
        EXPECT_EQ(::read(ready[0], &byte, 1), 1);
        ::close(ready[0]);
    }
    ~WaitingChild() { end(); }
    WaitingChild(const WaitingChild&) = delete;
    WaitingChild& operator=(const WaitingChild&) = delete;

    std::uint32_t id() const { return static_cast<std::uint32_t>(process_); }
    /* It is a zombie then. */
    void kill_only() const {
        ::kill(process_, SIGKILL);
        siginfo_t info{};
        ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT);
    }
    void end() {
        if (is_ended_) return;
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        is_ended_ = true;
    }

private:
    pid_t process_ = -1;
    bool is_ended_ = false;
};

sigset_t set_of(std::initializer_list<int> signals) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : signals)
        sigaddset(&set, signal);
    return set;
}

/* In a thread of its own, whose mask and name are nobody else's. */
void in_a_thread(const std::function<void()>& work) {
    std::thread(work).join();
}

TEST(ProcessStatus, SignalsAreThoseThatAThreadBlocksAndCatchesAndHasWaiting) {
    const std::array<int, 4> caught{SIGHUP, SIGURG, SIGRTMIN + 1, SIGRTMAX};
    std::array<struct sigaction, 4> before{};
    struct sigaction action {};
    action.sa_handler = [](int) {};
    for (std::size_t i = 0; i < caught.size(); i++)
        ::sigaction(caught[i], &action, &before[i]);
    in_a_thread([] {
        EXPECT_FALSE(has_signal_waiting(own_id(), SIGRTMAX));
        const sigset_t blocked = set_of({SIGHUP, SIGUSR2, SIGRTMAX});
        ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
        const auto status = thread_status(own_id(), own_thread_id());
        ASSERT_TRUE(status);
        const auto bit = [](int signal) { return std::uint64_t{1} << (signal - 1); };
        EXPECT_EQ(status->blocked, bit(SIGHUP) | bit(SIGUSR2) | bit(SIGRTMAX));
        EXPECT_EQ(status->pending, 0u);
        for (int signal = 1; signal <= SIGRTMAX; signal++) {
            struct sigaction its {};
            if (::sigaction(signal, nullptr, &its) != 0) continue; /* the C library's own */
            const bool has_one = its.sa_handler != SIG_DFL && its.sa_handler != SIG_IGN;
            EXPECT_EQ(catches(*status, static_cast<std::uint32_t>(signal)), has_one) << signal;
            EXPECT_EQ(lacks_handler(own_id(), static_cast<std::uint32_t>(signal)), !has_one) << signal;
        }
        ::pthread_kill(::pthread_self(), SIGRTMAX);
        ::pthread_kill(::pthread_self(), SIGHUP);
        EXPECT_EQ(thread_status(own_id(), own_thread_id())->pending, bit(SIGHUP) | bit(SIGRTMAX));
        EXPECT_EQ(process_status(own_id())->pending, 0u) << "that is the first thread";
        EXPECT_TRUE(has_signal_waiting(own_id(), SIGRTMAX));
        EXPECT_TRUE(has_signal_waiting(own_id(), SIGHUP));
        EXPECT_FALSE(has_signal_waiting(own_id(), SIGUSR2));
        EXPECT_FALSE(has_signal_waiting(own_id(), SIGRTMAX - 1));
    });
    for (std::size_t i = 0; i < caught.size(); i++)
        ::sigaction(caught[i], &before[i], nullptr);
}

TEST(ProcessStatus, OfWhatHasEndedNobodySaysThatItLacksAHandler) {
    WaitingChild child;
    EXPECT_TRUE(lacks_handler(child.id(), SIGURG));
    child.kill_only();
    EXPECT_EQ(process_status(child.id())->state, 'Z');
    EXPECT_FALSE(lacks_handler(child.id(), SIGURG));
    child.end();
    EXPECT_FALSE(process_status(child.id()));
    EXPECT_FALSE(lacks_handler(child.id(), SIGURG));
    EXPECT_FALSE(has_signal_waiting(child.id(), SIGURG));
    EXPECT_THAT(thread_ids(child.id()), IsEmpty());
    EXPECT_FALSE(most_filtered_status(child.id()));
    EXPECT_EQ(thread_runs(child.id(), child.id()), std::nullopt);
}

TEST(ProcessStatus, NamesAreWhatThreadsCallThemselves) {
    for (const std::string name : {"plain", "a\nb", "a\\b", "\\n", "n\\", "State:\tX", " x", "\\\\n"})
        in_a_thread([&] {
            ::prctl(PR_SET_NAME, name.c_str());
            const auto status = thread_status(own_id(), own_thread_id());
            ASSERT_TRUE(status);
            EXPECT_EQ(status->name, name);
            EXPECT_EQ(status->state, 'R');
        });
}

TEST(ProcessStatus, UsersAreTheRealAndTheEffectiveOne) {
    EXPECT_EQ(process_status(own_id())->user_id, ::getuid());
    EXPECT_EQ(process_status(own_id())->effective_user_id, ::geteuid());
    if (::geteuid() != 0) GTEST_SKIP() << "only root may be somebody else";
    const WaitingChild child([] { (void)!::setresuid(12345, 54321, 0); });
    EXPECT_EQ(process_status(child.id())->user_id, 12345u);
    EXPECT_EQ(process_status(child.id())->effective_user_id, 54321u);
    for (int tries = 0; tries < 10'000 && process_status(child.id())->state != 'S'; tries++)
        ::usleep(1000);
    EXPECT_EQ(process_status(child.id())->state, 'S');
}

TEST(ProcessStatus, SleepsAreWhenAThreadWaited) {
    in_a_thread([] {
        const auto sleeps = [] { return thread_status(own_id(), own_thread_id())->sleeps; };
        const auto known = [] {
            rusage usage{};
            ::getrusage(RUSAGE_THREAD, &usage);
            return static_cast<std::uint64_t>(usage.ru_nvcsw);
        };
        for (int i = 0; i < 5; i++) {
            const std::uint64_t before = known(), said = sleeps();
            EXPECT_THAT(said, AllOf(Ge(before), Le(known())));
            ::usleep(1000);
            EXPECT_GT(sleeps(), said);
        }
    });
}

TEST(ProcessStatus, AThreadHasRunForAsLongAsItsClockSays) {
    in_a_thread([] {
        const auto clock = [] {
            timespec now{};
            ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
            return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                   static_cast<std::uint64_t>(now.tv_nsec);
        };
        constexpr std::uint64_t long_ns = 20'000'000;
        while (clock() < long_ns) {
        }
        const auto said = thread_runs(own_id(), own_thread_id());
        if (!said) GTEST_SKIP() << "the kernel does not say";
        /* The kernel counts it at ticks and when threads change, so a little late. */
        EXPECT_THAT(said->run_ns, AllOf(Ge(long_ns / 2), Le(clock())));
    });
}

TEST(ProcessStatus, AProcessHasRunIfOneOfItsThreadsHas) {
    if (!process_run_ns(own_id())) GTEST_SKIP() << "the host takes time from this machine";
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    WaitingChild child([&] {
        std::thread([&] {
            char byte;
            while (::read(ends[0], &byte, 1) == 1) {
            }
        }).detach();
    });
    /* Until both wait. */
    std::uint64_t before = 0;
    for (int tries = 0; tries < 100; tries++) {
        before = process_run_ns(child.id()).value_or(0);
        ::usleep(20'000);
        if (before != 0 && process_run_ns(child.id()) == before) break;
    }
    EXPECT_EQ(process_run_ns(child.id()), before);
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(::write(ends[1], "x", 1), 1);
        std::optional<std::uint64_t> behind = before;
        for (int tries = 0; tries < 5'000 && behind == before;
             tries++) { /* on a busy machine it has to wait for its turn */
            ::usleep(1000);
            behind = process_run_ns(child.id());
            ASSERT_TRUE(behind);
        }
        ASSERT_GT(*behind, before) << i;
        before = *behind;
    }
    ::close(ends[0]);
    ::close(ends[1]);
    child.kill_only();
    child.end();
    EXPECT_EQ(process_run_ns(child.id()), std::nullopt);
    for (const std::uint32_t nobody : {0u, std::uint32_t{INT_MAX} + 1, 0xffffffffu})
        EXPECT_EQ(process_run_ns(nobody), std::nullopt) << nobody;
}

TEST(ProcessStart, IsWhenItWasBegun) {
    constexpr std::uint64_t tick_ns = 10'000'000;
    const std::uint64_t before = boottime_now_ns();
    WaitingChild child;
    const std::uint64_t behind = boottime_now_ns();
    const auto started = process_start_boottime_ns(child.id());
    ASSERT_TRUE(started);
    EXPECT_THAT(*started, AllOf(Ge(before - tick_ns), Le(behind)));
    EXPECT_TRUE(is_same_process(child.id(), behind));
    EXPECT_TRUE(is_same_process(child.id(), *started)) << "registered when it was begun";
    EXPECT_FALSE(is_same_process(child.id(), *started - 1));
    child.kill_only();
    EXPECT_EQ(process_start_boottime_ns(child.id()), std::nullopt);
    EXPECT_FALSE(is_same_process(child.id(), boottime_now_ns()));
    child.end();
    EXPECT_EQ(process_start_boottime_ns(child.id()), std::nullopt);
    for (const std::uint32_t nobody : {0u, std::uint32_t{INT_MAX}, std::uint32_t{INT_MAX} + 1, 0xffffffffu})
        EXPECT_EQ(process_start_boottime_ns(nobody), std::nullopt) << nobody;
}

TEST(ProcessStart, WhoSaidWhatItRunsIsKnownByIt) {
    const std::hash<std::string> hash;
    const std::size_t ours = hash(*executable_of(own_id()));
    EXPECT_TRUE(is_process_that_said(own_id(), ours, 0));
    EXPECT_TRUE(is_process_that_said(own_id(), ours + 1, boottime_now_ns()));
    EXPECT_FALSE(is_process_that_said(own_id(), ours + 1, 0));
    /* A thread that has a dead process's number now. */
    std::promise<std::uint32_t> id;
    std::promise<void> over;
    std::thread thread([&] {
        id.set_value(static_cast<std::uint32_t>(gettid()));
        over.get_future().wait();
    });
    const std::uint32_t thread_id = id.get_future().get();
    EXPECT_FALSE(is_process_that_said(thread_id, ours, 0));
    EXPECT_FALSE(is_process_that_said(thread_id, ours, boottime_now_ns()));
    EXPECT_TRUE(leads_its_threads(own_id()));
    EXPECT_FALSE(leads_its_threads(thread_id));
    over.set_value();
    thread.join();
    EXPECT_FALSE(leads_its_threads(INT_MAX));
    WaitingChild child;
    child.end();
    EXPECT_FALSE(is_process_that_said(child.id(), ours, boottime_now_ns()));
}

TEST(Ancestors, AreTheParentAndItsParents) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const WaitingChild child([&] {
        if (::fork() != 0) return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        const pid_t its = ::getpid();
        (void)!::write(ends[1], &its, sizeof(its));
        for (;;)
            ::pause();
    });
    const WaitingChild other;
    pid_t its = 0;
    ASSERT_EQ(::read(ends[0], &its, sizeof(its)), static_cast<ssize_t>(sizeof(its)));
    const auto grandchild = static_cast<std::uint32_t>(its);
    EXPECT_TRUE(descends_from(child.id(), own_id()));
    EXPECT_TRUE(descends_from(grandchild, child.id()));
    EXPECT_TRUE(descends_from(grandchild, own_id()));
    EXPECT_FALSE(descends_from(own_id(), own_id()));
    EXPECT_FALSE(descends_from(own_id(), child.id()));
    EXPECT_FALSE(descends_from(other.id(), child.id()));
    EXPECT_FALSE(descends_from(0, own_id()));
    for (const int end : ends)
        ::close(end);
}

TEST(ProcessIds, AreAllThatThereAreAndNothingElse) {
    WaitingChild child;
    const std::vector<std::uint32_t> all = all_process_ids();
    EXPECT_THAT(all, Contains(child.id()));
    EXPECT_THAT(all, Contains(own_id()));
    EXPECT_THAT(all, Each(Ge(1u)));
    child.end();
    EXPECT_THAT(all_process_ids(), Not(Contains(child.id())));
    EXPECT_THAT(thread_ids(own_id()), Contains(own_id()));
    in_a_thread([] {
        EXPECT_THAT(thread_ids(own_id()), Contains(own_thread_id()));
        EXPECT_THAT(thread_ids(own_id()), Contains(own_id()));
    });
}

class MappedFiles : public testing::Test {
protected:
    static constexpr std::size_t page_bytes = 4096, pages = 32;
    void SetUp() override {
        char name[] = "/tmp/plumb-processes-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        folder_ = name;
        void* const place =
            ::mmap(nullptr, pages * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(place, MAP_FAILED);
        place_ = reinterpret_cast<std::uintptr_t>(place);
    }
    void TearDown() override {
        ::munmap(reinterpret_cast<void*>(place_), pages * page_bytes);
        std::filesystem::remove_all(folder_);
    }
    FileDescriptor file(const std::string& name) const {
        FileDescriptor made(::open((folder_ + "/" + name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0700));
        EXPECT_TRUE(made.is_open());
        EXPECT_EQ(::ftruncate(made.get(), pages * page_bytes), 0);
        return made;
    }
    void map(const FileDescriptor& file, std::size_t page, std::size_t count, int protection,
             std::size_t from_page = 0) const {
        void* const wanted = reinterpret_cast<void*>(place_ + page * page_bytes);
        ASSERT_EQ(::mmap(wanted, count * page_bytes, protection, MAP_SHARED | MAP_FIXED, file.get(),
                         static_cast<off_t>(from_page * page_bytes)),
                  wanted);
    }
    static struct stat info_of(const FileDescriptor& file) {
        struct stat info {};
        EXPECT_EQ(::fstat(file.get(), &info), 0);
        return info;
    }
    /* Those in our place: "PAGE-END EXECUTABLE REMOVED NAME". */
    std::vector<std::string> found(std::uint32_t process_id = own_id()) const {
        std::vector<std::string> texts;
        const auto files = mapped_files(process_id);
        EXPECT_TRUE(files);
        for (const MappedFile& each : files ? *files : std::vector<MappedFile>{}) {
            if (each.base < place_ || each.base >= place_ + pages * page_bytes) continue;
            EXPECT_EQ(each.path.substr(0, folder_.size() + 1), folder_ + "/");
            texts.push_back(fmt::format("{}-{} {} {} {}", (each.base - place_) / page_bytes,
                                        (each.end - place_) / page_bytes, each.executable, each.removed,
                                        each.path.substr(folder_.size() + 1)));
        }
        return texts;
    }

    std::string folder_;
    std::uintptr_t place_ = 0;
};

TEST_F(MappedFiles, AreInOrderAndEachImageOnceWithAllOfItsParts) {
    const FileDescriptor first = file("first name"), second = file("second"), gone = file("gone"),
                         odd = file("odd (deleted)");
    map(second, 2, 1, PROT_READ);
    map(first, 4, 2, PROT_READ);
    map(first, 8, 3, PROT_READ | PROT_EXEC, 1);
    map(first, 14, 1, PROT_READ | PROT_WRITE, 4);
    map(gone, 20, 1, PROT_READ | PROT_EXEC);
    map(odd, 22, 2, PROT_READ);
    std::filesystem::remove(folder_ + "/gone");
    EXPECT_THAT(found(), ElementsAre("2-3 false false second", "4-15 true false first name",
                                     "20-21 true true gone", "22-24 false false odd (deleted)"));
    const WaitingChild child;
    EXPECT_EQ(found(child.id()), found());
    const auto files = mapped_files(own_id());
    for (const FileDescriptor* each : {&first, &second, &gone, &odd}) {
        const struct stat info = info_of(*each);
        EXPECT_EQ(std::count_if(files->begin(), files->end(),
                                [&](const MappedFile& mapped) { return mapped.inode == info.st_ino; }),
                  1);
    }
}

TEST_F(MappedFiles, WhatReadsTheFileAsDataIsNoPartOfAnImage) {
    const FileDescriptor library = file("library");
    map(library, 2, 6, PROT_READ); /* without a gap in front of the image */
    map(library, 8, 2, PROT_READ);
    map(library, 10, 2, PROT_READ | PROT_EXEC, 2);
    map(library, 12, 1, PROT_READ | PROT_WRITE, 3);
    map(library, 13, 6, PROT_READ); /* and behind it */
    map(library, 20, 1, PROT_READ); /* loaded again */
    map(library, 21, 2, PROT_READ | PROT_EXEC, 1);
    EXPECT_THAT(found(), ElementsAre("2-8 false false library", "8-13 true false library",
                                     "13-19 false false library", "20-23 true false library"));
}

TEST_F(MappedFiles, SegmentsThatShareTheFirstPageAreOneImage) {
    const FileDescriptor small = file("small");
    map(small, 2, 1, PROT_READ);
    map(small, 3, 1, PROT_READ | PROT_EXEC);
    map(small, 4, 1, PROT_READ);
    map(small, 5, 1, PROT_READ | PROT_WRITE);
    map(small, 6, 1, PROT_READ | PROT_WRITE); /* the same once more: no segment */
    map(small, 8, 1, PROT_READ);              /* nor behind a gap */
    map(small, 9, 2, PROT_READ | PROT_EXEC);
    map(small, 11, 1, PROT_READ | PROT_WRITE); /* more than the first page lies between */
    EXPECT_THAT(found(), ElementsAre("2-6 true false small", "6-7 false false small", "8-11 true false small",
                                     "11-12 false false small"));
}

TEST_F(MappedFiles, TellWhoMapsOne) {
    const FileDescriptor one = file("one");
    const struct stat info = info_of(one);
    const WaitingChild bystander;
    map(one, 1, 1, PROT_READ);
    const WaitingChild child;
    const auto files = mapped_files(own_id());
    const auto its = std::find_if(files->begin(), files->end(),
                                  [&](const MappedFile& mapped) { return mapped.path == folder_ + "/one"; });
    ASSERT_NE(its, files->end());
    EXPECT_EQ(its->inode, info.st_ino);
    EXPECT_THAT(processes_that_map(its->device, its->inode),
                testing::UnorderedElementsAre(own_id(), child.id()));
    EXPECT_THAT(processes_that_map(its->device + 1, its->inode), IsEmpty());
    EXPECT_THAT(processes_that_map(its->device, its->inode + (1ul << 60)), IsEmpty());
}

TEST_F(MappedFiles, AProgramIsCalledAsItWasWhenItsFileIsGone) {
    const std::string path = folder_ + "/program";
    std::filesystem::copy_file("/bin/sleep", path);
    const pid_t process = ::fork();
    if (process == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::execl(path.c_str(), path.c_str(), "1000", nullptr);
        ::_exit(1);
    }
    const auto id = static_cast<std::uint32_t>(process);
    for (int tries = 0; tries < 10'000 && executable_of(id).value_or("") != path; tries++)
        ::usleep(1000);
    EXPECT_EQ(executable_of(id).value_or(""), path);
    std::filesystem::remove(path);
    EXPECT_EQ(*read_link(proc_folder(id) + "/exe"), path + " (deleted)");
    EXPECT_EQ(executable_of(id).value_or(""), path);
    EXPECT_EQ(proc_folder(id), "/proc/" + std::to_string(id));
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    EXPECT_FALSE(executable_of(id));
    EXPECT_FALSE(mapped_files(id));
}

} // namespace
} // namespace plumb
