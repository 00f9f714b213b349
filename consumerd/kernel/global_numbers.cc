#include "consumerd/kernel/global_numbers.h"

#include "base/file.h"
#include "base/process_names.h"
#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/kernel/tracefs.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace plumb {
namespace {

constexpr std::uint64_t new_pid_namespace = 0x20000000; /* CLONE_NEWPID */
/* A vfork returns when its child runs or ends; that event follows at once, or when its CPU is free. */
constexpr int patience_tries = 100;
constexpr useconds_t patience_us = 1000;
constexpr std::size_t lives_kept_max = 50'000;

/* While it lives, this thread can not lower what decides about running out of memory, nor note a new least value. */
class WithoutResourceRights {
public:
    WithoutResourceRights() {
        header_.version = _LINUX_CAPABILITY_VERSION_3;
        if (syscall(SYS_capget, &header_, data_) != 0) return;
        std::memcpy(before_, data_, sizeof(before_));
        data_[0].effective &= ~(1u << CAP_SYS_RESOURCE);
        is_changed_ = syscall(SYS_capset, &header_, data_) == 0;
    }
    ~WithoutResourceRights() {
        if (is_changed_) (void)syscall(SYS_capset, &header_, before_);
    }
    WithoutResourceRights(const WithoutResourceRights&) = delete;
    WithoutResourceRights& operator=(const WithoutResourceRights&) = delete;

private:
    __user_cap_header_struct header_{};
    __user_cap_data_struct data_[2] = {};
    __user_cap_data_struct before_[2] = {};
    bool is_changed_ = false;
};

std::uint32_t inode_of(const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 ? static_cast<std::uint32_t>(info.st_ino) : 0;
}

/* What it starts bears numbers of our own namespace. */
bool starts_numbers_as_we(const std::string& task) {
    const std::uint32_t ours = own_namespace();
    return ours != 0 && inode_of(task + "/ns/pid") == ours && inode_of(task + "/ns/pid_for_children") == ours;
}

std::string task_folder(std::uint32_t process_id, std::uint32_t thread_id) {
    return fmt::format("/proc/{}/task/{}", process_id, thread_id);
}

Error cannot_tell(const std::string& why) {
    return Error("The kernel's tracer names processes by the machine's numbers, which could not be found out "
                 "in this "
                 "process-id namespace: {}.",
                 why)
        .hint("Record from outside of the container: there, its processes have the machine's numbers.")
        .as(GlobalNumbers::cannot_be_known);
}

std::uint32_t own_thread() {
    return static_cast<std::uint32_t>(gettid());
}

} // namespace

GlobalNumbers::GlobalNumbers(std::unique_ptr<TracefsReader> reader)
    : reader_(std::move(reader)), lives_looked_at_(lives_kept_max) {}

Result<std::unique_ptr<GlobalNumbers>> GlobalNumbers::make(std::unique_ptr<TracefsReader> reader) {
    if (!proc_has_our_numbers())
        return cannot_tell("there is no /proc that shows its numbers (`mount -t proc proc /proc`)");
    std::unique_ptr<GlobalNumbers> numbers(new GlobalNumbers(std::move(reader)));
    if (Status enabled = numbers->enable(); !enabled) return cannot_tell(enabled.error().message());
    const auto own = numbers->of(static_cast<std::uint32_t>(getpid()), own_thread());
    if (!own) return own.error();
    const std::scoped_lock lock(numbers->mutex_);
    if (*own != numbers->own_numbers_[own_thread()])
        return cannot_tell("two events disagree about the recorder's");
    numbers->look();
    return numbers;
}

Status GlobalNumbers::enable() {
    const auto take = [](std::optional<RawFields>& to, Result<RawFields> fields) -> Status {
        if (!fields) return fields.error();
        to = std::move(*fields);
        return ok();
    };
    if (Status on = take(newtask_, reader_->enable("task", "task_newtask")); !on) return on;
    if (Status on = take(answer_, reader_->enable("oom", "oom_score_adj_update")); !on) return on;
    if (Status on = take(mark_, reader_->fields_of("ftrace", "print")); !on) return on;
    for (const char* call : {"clone", "clone3", "fork", "vfork"}) /* not every machine has all of them */
        if (auto fields = reader_->enable("syscalls", std::string("sys_exit_") + call))
            returns_.push_back(std::move(*fields));
    /* Who can not be followed there is looked for. */
    if (!take(unshare_, reader_->enable("syscalls", "sys_enter_unshare")) ||
        !take(setns_, reader_->enable("syscalls", "sys_enter_setns")))
        returns_.clear();
    return reader_->start();
}

void GlobalNumbers::take(const RawEvent& event) {
    const std::uint16_t type = raw_type(event);
    const std::uint32_t by = raw_thread(event);
    const auto number = [&](const RawFields& fields, const char* name) -> std::int64_t {
        const RawField* const field = fields.find(name);
        return field == nullptr ? 0 : raw_number(*field, event.data).value_or(0);
    };
    if (type == newtask_->id()) {
        lives_.began(event.timestamp, by, static_cast<std::uint32_t>(number(*newtask_, "pid")),
                     static_cast<std::uint64_t>(number(*newtask_, "clone_flags")));
    } else if (type == answer_->id()) {
        if (by == asked_by_) answered_ = static_cast<std::uint32_t>(number(*answer_, "pid"));
    } else if (type == mark_->id()) {
        const RawField* const text = mark_->find("buf");
        if (text == nullptr || marked_with_.empty() || text->offset > event.data.size()) return;
        const std::string_view rest(reinterpret_cast<const char*>(event.data.data()) + text->offset,
                                    event.data.size() - text->offset);
        if (rest.starts_with(marked_with_)) marked_by_ = by;
    } else if (unshare_ && type == unshare_->id()) {
        if ((number(*unshare_, "unshare_flags") & static_cast<std::int64_t>(new_pid_namespace)) != 0)
            lives_.moved(by);
    } else if (setns_ && type == setns_->id()) {
        lives_.moved(by);
    } else {
        for (const RawFields& each : returns_)
            if (type == each.id()) lives_.returned(event.timestamp, by, number(each, "ret"));
    }
}

/* Twice: see TracefsReader::read(). */
void GlobalNumbers::read() {
    for (int times = 0; times < 2; times++)
        if (!reader_->read([this](const RawEvent& event) { take(event); })) {
            lives_.lost();
            losses_++;
        }
}

/* Most of those who begin on the machine may be of no concern. */
void GlobalNumbers::catch_up() {
    const std::scoped_lock lock(mutex_);
    read();
    if (lives_.size() < lives_looked_at_) return;
    look();
    lives_.forget_unseen();
    /* Not at each look, where most are seen. */
    lives_looked_at_ = std::max(lives_kept_max, lives_.size() + lives_.size() / 2);
}

Result<std::uint32_t> GlobalNumbers::of(std::uint32_t process_id, std::uint32_t thread_id) {
    const std::scoped_lock lock(mutex_);
    auto number = ask(process_id, thread_id);
    if (number)
        lives_.is(*number, thread_id, starts_numbers_as_we(task_folder(process_id, thread_id)),
                  reader_->now());
    return number;
}

/* Of the thread that asks. */
Result<std::uint32_t> GlobalNumbers::own_number() {
    if (const auto known = own_numbers_.find(own_thread()); known != own_numbers_.end()) return known->second;
    marked_by_.reset();
    marked_with_ = fmt::format("plumb {} {}", own_thread(), read_clock(PLUMB_CLOCK_MONOTONIC));
    if (Status marked = write_tracefs(reader_->path("trace_marker"), marked_with_); !marked)
        return cannot_tell(marked.error().message());
    for (int tries = 0; tries < patience_tries && !marked_by_; tries++) {
        if (tries > 1) usleep(patience_us);
        read();
    }
    marked_with_.clear();
    if (!marked_by_) return cannot_tell("the kernel's tracer shows no mark that was written to it");
    own_numbers_[own_thread()] = *marked_by_;
    return *marked_by_;
}

std::optional<std::uint32_t> GlobalNumbers::wait_for_answer(std::uint32_t own) {
    asked_by_ = own;
    for (int tries = 0; tries < patience_tries && !answered_; tries++) {
        if (tries > 1) usleep(patience_us);
        read();
    }
    asked_by_ = 0;
    return answered_;
}

/* number() of the error is cannot_be_known, or ENOENT: there is no such thread. */
Result<std::uint32_t> GlobalNumbers::ask(std::uint32_t process_id, std::uint32_t thread_id) {
    const auto own = own_number();
    if (!own) return own.error();
    const std::string file = task_folder(process_id, thread_id) + "/oom_score_adj";
    const auto value = read_small_file(file);
    if (!value) return value.error().as(ENOENT);
    answered_.reset();
    Status written = ok();
    {
        const WithoutResourceRights least;
        written = write_tracefs(file, value->substr(0, value->find('\n')));
    }
    if (!written) {
        const int number = written.error().number();
        return number == ENOENT || number == ESRCH ? written.error().as(ENOENT)
                                                   : cannot_tell(written.error().message());
    }
    const auto answer = wait_for_answer(*own);
    if (!answer) return cannot_tell("the kernel says nothing of a process whose oom_score_adj is written");
    return *answer;
}

void GlobalNumbers::take_number_of(std::uint32_t process_id, std::uint32_t thread_id) {
    const auto number = ask(process_id, thread_id);
    if (number)
        lives_.is(*number, thread_id, starts_numbers_as_we(task_folder(process_id, thread_id)),
                  reader_->now());
}

/* At everybody that we see and do not know. */
void GlobalNumbers::look() {
    const std::uint64_t began = reader_->now();
    for (const std::uint32_t process_id : all_process_ids())
        for (const std::uint32_t thread_id : thread_ids(process_id))
            if (!lives_.has_number(thread_id)) take_number_of(process_id, thread_id);
    lives_.looked(began);
}

/* vfork() returns when its child runs something else, or ends: a child that does neither for long is to be seen. Its number here may be
 * one that another thread is known to have had. */
void GlobalNumbers::look_beside_maker_of(std::uint32_t thread) {
    const std::uint32_t maker = lives_.maker_in_call(thread);
    if (maker == 0) return;
    const std::vector<std::uint32_t> its_process = thread_ids(maker);
    const auto is_of_it = [&](std::uint32_t number) {
        return std::find(its_process.begin(), its_process.end(), number) != its_process.end();
    };
    for (const std::uint32_t process_id : all_process_ids()) {
        const auto status = process_status(process_id);
        if (!is_of_it(process_id) && !(status && is_of_it(status->parent))) continue;
        for (const std::uint32_t thread_id : thread_ids(process_id))
            take_number_of(process_id, thread_id);
    }
}

std::uint32_t GlobalNumbers::here_now(std::uint32_t thread) {
    catch_up();
    return here(thread, reader_->now());
}

std::uint32_t GlobalNumbers::here(std::uint32_t thread, std::uint64_t time) {
    using State = ThreadLives::State;
    if (thread == 0 || thread > unseen_thread_base) return thread; /* of no process */
    const std::scoped_lock lock(mutex_);
    ThreadLives::Answer answer = lives_.find(thread, time);
    if (answer.state == State::awaited) { /* mostly it has been told since */
        read();
        answer = lives_.find(thread, time);
    }
    if (!answer.was_looked_for) {
        look();
        answer = lives_.find(thread, time);
    }
    for (int tries = 0; tries < patience_tries && answer.state == State::awaited; tries++) {
        usleep(patience_us);
        read();
        answer = lives_.find(thread, time);
    }
    if (answer.state == State::awaited) {
        look_beside_maker_of(thread);
        answer = lives_.find(thread, time);
    }
    if (answer.state == State::awaited) lives_.await_no_longer(thread);
    return answer.state == State::known ? answer.number : unseen_thread_base + thread;
}

} // namespace plumb
