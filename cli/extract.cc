/*
 * plumb extract: makes a trace of what a killed recorder left in shared memory, the newest events that it had not
 * written, and gives the memory back. A channel is a complete trace at every instant, so a copy of one in a file does
 * as well.
 */
#include "base/file.h"
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/losses.h"
#include "cli/output.h"
#include "cli/record_summary.h"
#include "cli/status_line.h"
#include "cli/trace_directory.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/control/state.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/drain/channel_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>

namespace plumb {
namespace {

struct ExtractOptions {
    std::string which; /* a recorder's process id, or a file; empty: the only one that is left */
    std::string directory;
    std::optional<std::uint32_t> user_id;
    bool force = false;
    bool keep = false;
    bool remove = false;
};

/* Private memory, so that nobody changes or shortens it while it is read; aligned as a channel is. */
class ChannelCopy {
public:
    static Result<ChannelCopy> read(const FileDescriptor& file, const std::string& path) {
        struct stat info {};
        if (::fstat(file.get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
        if (!S_ISREG(info.st_mode)) return Error("{} is not a file.", path);
        ChannelCopy copy(static_cast<std::size_t>(info.st_size));
        if (!copy.bytes_) return Error("{} is too large: {} bytes.", path, info.st_size);
        for (std::size_t done = 0; done < copy.size_;) {
            const ssize_t got =
                ::pread(file.get(), copy.bytes_.get() + done, copy.size_ - done, static_cast<off_t>(done));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return Error::from_errno(got < 0 ? errno : EIO, "Could not read {}", path);
            done += static_cast<std::size_t>(got);
        }
        return copy;
    }
    std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }

private:
    static constexpr std::align_val_t alignment{4096};
    struct Free {
        void operator()(std::byte* bytes) const { ::operator delete(bytes, alignment); }
    };
    explicit ChannelCopy(std::size_t size)
        : bytes_(static_cast<std::byte*>(::operator new(size + 1, alignment, std::nothrow))), size_(size) {}
    std::unique_ptr<std::byte, Free> bytes_;
    std::size_t size_;
};

std::string described(const LeftChannel& channel) {
    return fmt::format("process {} (session {}, {} not written, {} min ago)", channel.recorder_process_id,
                       escaped(channel.session_name), size_text(channel.unread_bytes), channel.age_s / 60);
}

Error nothing_left() {
    return Error("No killed recorder has left anything.").as(ENOENT);
}

/* What is left, after sessions whose recorder is dead were ended. */
Result<std::vector<LeftChannel>> find_left(const UserDirectory& directory) {
    if (Result<StateFile> state = StateFile::open_existing(directory)) (void)state->clean_up().has_value();
    tidy_left_channels(directory);
    std::vector<LeftChannel> left = left_channels(directory);
    if (left.empty()) return nothing_left();
    return left;
}

Result<LeftChannel> choose(const std::vector<LeftChannel>& left, const std::string& which) {
    if (which.empty() && left.size() == 1) return left.front();
    std::string all;
    for (const LeftChannel& channel : left) {
        if (!which.empty() &&
            (which == channel.file_name || which == std::to_string(channel.recorder_process_id)))
            return channel;
        all += (all.empty() ? "" : ", ") + described(channel);
    }
    if (!which.empty()) return Error("{} left nothing. There is something of: {}.", which, all);
    return Error("Several killed recorders left something: {}.", all)
        .hint("Say which: `plumb extract {}`.", left.front().recorder_process_id);
}

/* `whose`: for the message. Returns whether the trace is complete. */
Result<bool> make_trace(const ChannelCopy& channel, const ExtractOptions& options, const std::string& whose) {
    const std::string path = options.directory.empty() ? default_trace_directory() : options.directory;
    auto directory = TraceDirectory::claim(path, options.force);
    if (!directory) return directory.error();
    RecordSummary summary;
    summary.directory = path;
    ChannelDrainOptions drain_options;
    drain_options.directory = path;
    drain_options.log = [](const std::string& line) { print_error("plumb: {}\n", line); };
    auto drain = drain_dead_channel(channel.bytes(), drain_options);
    if (!drain) return drain.error();
    summary.name = (*drain)->identity().trace_name;
    if (Status finished = (*drain)->finish(); !finished)
        summary.problems.push_back(finished.error().message());
    summary.totals = (*drain)->totals();
    if (Status stored = store_summary(summary); !stored) summary.problems.push_back(stored.error().message());
    directory->keep();

    const DrainTotals& totals = summary.totals;
    print_error("Extracted {} of {}.\n", counted(totals.progress.events, "event"), whose);
    for (const NamedCount& lost : totals.events_lost)
        print_error("Lost: {}\n", loss_text(lost, "event", totals.write_error));
    for (const NamedCount& lost : totals.subbufs_lost)
        print_error("Lost: {}\n", loss_text(lost, "sub-buffer", totals.write_error));
    for (const std::string& problem : summary.problems)
        print_error("{}\n", problem);
    print_error("The trace is in {} ({}).\n", path, size_text(totals.progress.bytes));
    return summary.problems.empty();
}

int extract_file(const ExtractOptions& options) {
    const FileDescriptor file(::open(options.which.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open()) return complain(Error::from_errno(errno, "Could not open {}", options.which));
    const auto channel = ChannelCopy::read(file, options.which);
    if (!channel) return complain(channel.error());
    const auto complete = make_trace(*channel, options, options.which);
    return complete ? (*complete ? 0 : 1) : complain(complete.error());
}

int remove_left(const UserDirectory& directory, const std::vector<LeftChannel>& left,
                const ExtractOptions& options) {
    std::vector<LeftChannel> chosen = left;
    if (!options.which.empty()) {
        const auto one = choose(left, options.which);
        if (!one) return complain(one.error());
        chosen = {*one};
    }
    for (const LeftChannel& channel : chosen) {
        if (Status removed = directory.unlink_file(channel.file_name); !removed)
            return complain(removed.error());
        print_out("Removed what was left of {}: {} of shared memory.\n", described(channel),
                  size_text(channel.memory_bytes));
    }
    return 0;
}

int run_extract(const ExtractOptions& options) {
    ::signal(SIGXFSZ, SIG_IGN); /* a file limit is an error of write(), and told */
    if (options.which.find('/') != std::string::npos) return extract_file(options);
    const auto directory = UserDirectory::open_existing(options.user_id);
    if (!directory)
        return complain(directory.error().number() == ENOENT ? nothing_left() : directory.error());
    const auto left = find_left(*directory);
    if (!left) return complain(left.error());
    if (options.remove) return remove_left(*directory, *left, options);
    const auto chosen = choose(*left, options.which);
    if (!chosen) return complain(chosen.error());
    const auto file = directory->open_file(chosen->file_name, false);
    if (!file) return complain(file.error());
    const auto channel = ChannelCopy::read(*file, directory->path_of_file(chosen->file_name));
    if (!channel) return complain(channel.error());
    const auto complete = make_trace(*channel, options, described(*chosen));
    if (!complete) return complain(complete.error());
    if (!*complete) return 1;
    if (!options.keep)
        if (Status removed = directory->unlink_file(chosen->file_name); !removed)
            return complain(removed.error());
    return 0;
}

void add_extract(CLI::App& app) {
    auto options = std::make_shared<ExtractOptions>();
    CLI::App* const command =
        app.add_subcommand("extract", "Make a trace of what a killed plumb record left in shared memory");
    command->add_option(
        "RECORDER", options->which,
        "Process id of the killed plumb record; not needed if there is only one. Or the path of "
        "a file that holds a channel");
    command
        ->add_option("-o,--output", options->directory, "Directory of the trace; default: plumb-trace-<date>")
        ->type_name("DIR");
    CLI::Option* const force =
        command->add_flag("--force", options->force, "Replace the trace that is in DIR");
    CLI::Option* const keep =
        command->add_flag("--keep", options->keep, "Leave it in shared memory, to be extracted again");
    command
        ->add_flag("--remove", options->remove, "Make no trace: only give the memory back, of all or of one")
        ->excludes(keep)
        ->excludes(force);
    command->add_option("--user", options->user_id, "As root: what recorders of this user left")
        ->type_name("UID");
    command->footer("What is left is kept for an hour, of the last four recorders. `plumb list` shows it.");
    command->callback([options] { finish(run_extract(*options)); });
}

const Command command(add_extract, 16);

} // namespace
} // namespace plumb
