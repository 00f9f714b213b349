#include "consumerd/daemon/session_kernel.h"

#include "base/file.h"
#include "base/number_text.h"
#include "base/process_names.h"
#include "base/processes.h"
#include "consumerd/kernel/kernel_choice.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace plumb {
namespace {

KernelConfig config_of(const DescribedKernel& words, std::uint64_t cookie, plumb_clock_mode clock) {
    KernelConfig config;
    config.clock_mode = clock;
    config.buffer_bytes = words.buffer_bytes;
    config.session_cookie = cookie;
    config.file_names = words.file_names;
    config.is_kept = true;
    return config;
}

/* The supervisor, as long as it is that which has started us: who is left out hands that on to whom it starts. */
std::vector<std::uint32_t> own_processes() {
    std::vector<std::uint32_t> own = {static_cast<std::uint32_t>(::getpid())};
    const auto parent = static_cast<std::uint32_t>(::getppid());
    const auto executable_of = [](std::uint32_t process_id) {
        char path[4096];
        const ssize_t length =
            ::readlink(fmt::format("/proc/{}/exe", process_id).c_str(), path, sizeof(path));
        return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
    };
    if (const std::string ours = executable_of(own[0]); !ours.empty() && executable_of(parent) == ours)
        own.push_back(parent);
    return own;
}

bool is_switched_off(const std::string& instance) {
    const auto root = mounted_tracefs();
    if (!root) return false;
    const auto is_on = read_small_file(*root + "/instances/" + instance + "/tracing_on");
    return is_on && is_on->starts_with('0');
}

} // namespace

Result<std::unique_ptr<KernelPart>> KernelPart::open(DescribedKernel& words, Options options) {
    if (!in_first_namespace())
        return Error("-k: the kernel's tracer knows processes by the machine's own numbers, which are not "
                     "those "
                     "of here.")
            .hint("Make the session outside of the container, or use `plumb record -k`.");
    std::unique_ptr<KernelPart> part(new KernelPart(words, std::move(options)));
    Status opened = words.is_made ? part->take_over() : part->make();
    if (opened) opened = part->open_staged();
    if (!opened) return opened.error();
    words.is_made = true;
    return part;
}

KernelPart::~KernelPart() {
    leave();
}

void KernelPart::problem(const std::string& text) {
    options_.log(text);
    problems_.push_back(text);
}

/* What is there of one that was not finished records nothing. */
Status KernelPart::make() {
    KernelSession::remove_kept(options_.cookie);
    (void)!::unlink(options_.staged_path.c_str());
    auto session = KernelSession::create(config_of(words_, options_.cookie, options_.clock));
    if (!session) return session.error();
    const auto selectors = parse_kernel_events(words_.events);
    Status selected = selectors ? (*session)->select(*selectors) : Status(selectors.error());
    if (!selected) {
        (void)(*session)->remove();
        return selected;
    }
    session_ = std::move(*session);
    for (const std::string& told : told_of_choice(*session_))
        problem(told);
    return ok();
}

Status KernelPart::take_over() {
    auto session = KernelSession::take_over(config_of(words_, options_.cookie, options_.clock));
    if (!session && session.error().number() == ENOENT) {
        problem("The tracing instance of the kernel's events is gone: what it held is lost, and nobody has "
                "counted "
                "it. It is made anew.");
        return make();
    }
    if (!session) return session.error();
    session_ = std::move(*session);
    is_taken_over_ = true;
    leave_out_own();
    for (const std::string& told : told_of_choice(*session_))
        problem(told);
    return ok();
}

Status KernelPart::open_staged() {
    StagedPages::Shape shape;
    shape.cookie = options_.cookie;
    shape.cpu_count = session_->cpus().back() + 1;
    shape.page_bytes = session_->page_bytes();
    auto left = is_taken_over_ ? StagedPages::open(options_.staged_path, shape)
                               : Result<std::unique_ptr<StagedPages>>(Error("It is new.").as(ENOENT));
    was_staged_ = left.has_value();
    if (!left) left = StagedPages::create(options_.staged_path, shape);
    if (!left) return left.error();
    staged_ = std::move(*left);
    return ok();
}

void KernelPart::settle_left(DrainJournal& journal) {
    if (!is_taken_over_) return;
    const std::uint64_t before = journal.ended_current(0).losses.taken_along;
    settle_taken_along(journal, *session_, was_staged_ ? staged_.get() : nullptr);
    const std::uint64_t lost = journal.ended_current(0).losses.taken_along - before;
    if (lost != 0)
        problem(fmt::format(
            "{} of the kernel that the worker before had read when it was killed are lost: they are "
            "told in the last packets of its chunk.",
            counted(lost, "event")));
}

/* Also whom we start: drains of other places, and commands of triggers. */
void KernelPart::leave_out_own() {
    Status left_out = session_->leave_out_too(own_processes());
    if (left_out) left_out = session_->leave_out_later_threads();
    if (!left_out) problem(left_out.error().with("The session's own events are recorded, too").message());
}

Status KernelPart::start(const std::string& directory, const std::string& journal,
                         std::optional<LeftTrace> left, const Drain& of_programs, bool is_started) {
    KernelDrainOptions options;
    options.directory = directory;
    options.identity = of_programs.identity();
    options.clock = of_programs.clock_page();
    options.statedump.clock_mode = static_cast<plumb_clock_mode>(options.clock.mode);
    options.statedump.open_files = words_.open_files;
    options.log = options_.log;
    options.journal = journal;
    if (left && !is_taken_over_)
        left->journal.reset(); /* it speaks of the buffers of an instance that is gone */
    options.left = std::move(left);
    options.staged = staged_;
    auto drain = drain_kernel(*session_, std::move(options));
    if (!drain) return drain.error();
    drain_ = std::move(*drain);
    if (Status kept = drain_->keep_for_chunks(); !kept) return kept;
    return drain_->start([&] {
        leave_out_own();
        return switch_on(is_started);
    });
}

/* One that was taken over is on already, and goes on. */
Status KernelPart::switch_on(bool is_on) {
    const bool is_first = std::exchange(is_taken_over_, false);
    if (is_on && is_first && is_switched_off(session_->name()))
        problem(
            "The kernel's tracing instance was switched off while no worker lived: events of the kernel are "
            "missing from then on, and nobody has counted them.");
    is_on_ = is_on;
    return is_on ? session_->start() : session_->pause();
}

void KernelPart::look() {
    if (!is_on_) return;
    if (Status running = session_->check_running(); !running) problem(running.error().message());
    if (Status whole = session_->check_emptied(); !whole) problem(whole.error().message());
}

Status KernelPart::make_next_sink(const std::string& directory) {
    auto sink = drain_->make_next_sink(directory);
    if (!sink) return sink.error();
    next_sink_ = std::move(*sink);
    return ok();
}

void KernelPart::rotate(const std::string& directory, std::uint64_t at, Drain::Chunk& of_programs,
                        std::vector<Error>& problems) {
    const Drain::Chunk ended = drain_->rotate(std::move(next_sink_), directory, at, &of_programs);
    if (!ended.written) problems.push_back(ended.written.error());
    add_totals(of_programs.totals, ended.totals);
}

void KernelPart::finish(const plumb_clock_page& clock, DrainTotals& totals, std::vector<Error>& problems,
                        std::vector<Error>& of_chunk) {
    if (!drain_) return;
    look();
    if (Status stopped = session_->pause(); !stopped) problems.push_back(stopped.error());
    is_on_ = false;
    drain_->stop();
    if (Status finished = drain_->finish(&clock); !finished) problems.push_back(finished.error());
    if (Status written = drain_->chunk_written(); !written) of_chunk.push_back(written.error());
    add_totals(totals, drain_->chunk_totals());
    drain_.reset(); /* an instance that is read from can not be removed */
}

Status KernelPart::remove() {
    drain_.reset();
    staged_.reset();
    Status removed = session_ ? session_->remove() : ok();
    session_.reset();
    (void)!::unlink(options_.staged_path.c_str());
    return removed;
}

void KernelPart::leave() {
    if (drain_) drain_->stop();
    drain_.reset();
    session_.reset();
    staged_.reset();
}

/* Of losses and of what is unread, since there is the instance: whichever worker it had. */
Json KernelPart::status() const {
    const DrainProgress so_far = progress();
    KernelCounts sum;
    const auto root = mounted_tracefs();
    for (const std::uint32_t cpu : session_->cpus()) {
        const auto counts =
            root ? kernel_counts(*root + "/instances/" + session_->name(), cpu) : std::nullopt;
        if (!counts) continue;
        sum.overrun += counts->overrun;
        sum.dropped += counts->dropped;
        sum.unread += counts->unread;
    }
    return {{"events_recorded", so_far.events},
            {"events_lost", sum.overrun + sum.dropped},
            {"events_unread", sum.unread},
            {"cpus", session_->cpus().size()},
            {"buffer_bytes", session_->buffer_bytes()},
            {"instance", session_->name()}};
}

} // namespace plumb
