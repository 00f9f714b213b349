/*
 * plumb extract: makes a trace of what a killed recorder left in shared memory, the newest events that it had not
 * written, and gives the memory back. A channel is a complete trace at every instant, so a copy of one in a file does
 * as well.
 */
#include "base/file.h"
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/end_noted.h"
#include "cli/extract_kernel.h"
#include "cli/left_recordings.h"
#include "cli/losses.h"
#include "cli/open_files.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/record_summary.h"
#include "cli/status_line.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/drain/channel_source.h"
#include "consumerd/drain/kernel_source.h"
#include "consumerd/dump/channel_copy.h"
#include "consumerd/dump/dumped_channels.h"
#include "consumerd/dump/memory_dump.h"
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/kernel/tracing_instances.h"
#include "consumerd/places/other_users.h"
#include "consumerd/sink/trace_directory.h"

#include <plumb/abi/channel.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

struct ExtractOptions {
    std::string which; /* a recorder's process id, or a file; empty: the only one that is left */
    std::string directory;
    std::optional<std::string> user; /* by name or number */
    std::optional<uid_t> user_id;    /* `user`, when it is known */
    bool force = false;
    bool keep = false;
    bool remove = false;
    bool is_of_others = false; /* whoever was on the machine that was dumped */
};

/* A channel, and where its part of the trace goes; empty: as that of the recorder's own user. */
struct ToDrain {
    ChannelCopy channel;
    std::string folder;
    std::string path;
    const LeftRecording::Part* part = nullptr; /* nullptr: it is a file of somebody's */
    bool is_written = false;                   /* all that there is of it */
};

void tell(const RecordSummary& summary, const std::string& whose) {
    const DrainTotals& totals = summary.totals;
    print_error("Extracted {} of {}.\n", counted(totals.progress.events, "event"), without_controls(whose));
    for (const NamedCount& lost : totals.events_lost)
        print_error("Lost: {}\n", loss_text(lost, "event", totals.write_error, totals.notes));
    for (const NamedCount& lost : totals.subbufs_lost)
        print_error("Lost: {}\n", loss_text(lost, "sub-buffer", totals.write_error, totals.notes));
    for (const NamedCount& missed : totals.missed)
        print_error("Lost: {}\n", escaped(missed_text(missed)));
    for (const NamedCount& missing : totals.not_switched_on)
        print_error("Lost: {}\n", escaped(not_switched_on_text(missing)));
    for (const NamedCount& note : totals.notes)
        if (note.name == cut_note) print_error("Not whole: {}\n", cut_text(note.count));
    for (const NamedCount& missing : totals.not_described)
        print_error("Not described: {}\n", not_described_text(missing));
    for (const std::string& problem : summary.problems)
        print_error("{}\n", without_controls(problem));
    print_error("The trace is in {} ({}).\n", escaped(summary.directory), size_text(totals.progress.bytes));
}

/* Behind all channels, so that whatever is wrong with one of them is known before anything is taken out of the kernel's
 * buffers. `own`: of the recorder's own channel, as far as that can be used. */
void try_kernel_events(std::uint64_t session_cookie, const Drain* own, bool is_kept, ToDrain& first,
                       RecordSummary& summary) {
    if (is_kept) {
        summary.problems.push_back(
            "Events of the kernel are missing here, since reading would take them out of "
            "their buffers: `plumb extract` without --keep does.");
        return;
    }
    Status added = own != nullptr ? add_kernel_events(session_cookie, *own, summary)
                                  : Status(Error("The recorder's own channel can not be used."));
    if (added) return;
    /* What is gone now will not be there at the next try. */
    const bool is_gone = added.error().number() == ENOENT;
    if (!is_gone) first.is_written = false;
    summary.problems.push_back(fmt::format(
        "Events of the kernel that the recorder had not written are missing, nobody knows how many: {}{}",
        added.error().message(), is_gone ? "" : " The next `plumb extract` tries it again."));
}

Result<std::unique_ptr<Drain>> drain_channel(ToDrain& channel, RecordSummary& summary) {
    ChannelDrainOptions options;
    options.directory = summary.directory;
    options.folder = channel.folder;
    options.is_enough = [] { return EndNoted::number() != 0; };
    options.log = [](const std::string& line) { print_error("plumb: {}\n", without_controls(line)); };
    auto drain = drain_dead_channel(channel.channel.bytes(), options);
    if (!drain) return drain.error().with("{} can not be extracted", channel.path);
    if (summary.name.empty()) summary.name = (*drain)->identity().trace_name;
    const Status finished = (*drain)->finish();
    if (!finished) summary.problems.push_back(finished.error().message());
    channel.is_written = finished.has_value();
    add_totals(summary.totals, (*drain)->totals());
    return drain;
}

/* Whether nothing is missing. `whose`: for the message. `problems`: so far. `kernel_cookie`: of the session whose events of
 * the kernel wait; 0: none does. */
Result<bool> make_trace(std::vector<ToDrain>& channels, const ExtractOptions& options,
                        const std::string& whose, std::vector<std::string> problems = {},
                        std::uint64_t kernel_cookie = 0) {
    const EndNoted end_noted; /* until the directory is taken back */
    const bool is_of_others = ::geteuid() == 0 && (kernel_cookie != 0 || channels.size() > 1 ||
                                                   options.user_id || options.is_of_others);
    auto directory = TraceDirectory::claim(options.directory, options.force, is_of_others, say_error);
    if (!directory) return directory.error();
    RecordSummary summary;
    summary.directory = options.directory.empty() ? directory->path() : options.directory;
    summary.problems = std::move(problems);
    std::unique_ptr<Drain> own;
    std::optional<Error> unusable; /* the first */
    bool is_any = false;
    for (ToDrain& each : channels) {
        auto drain = drain_channel(each, summary);
        is_any |= drain.has_value();
        if (!drain) {
            summary.problems.push_back(drain.error().message());
            if (!unusable) unusable = drain.error();
        } else if (each.folder.empty()) {
            own = std::move(*drain);
        }
    }
    if (!is_any && unusable) return *unusable;
    if (const int number = EndNoted::number(); number != 0) {
        finish_by_signal(number);
        return Error("{} was not extracted, since it was asked to end.", whose);
    }
    if (kernel_cookie != 0)
        try_kernel_events(kernel_cookie, own.get(), options.keep, channels.front(), summary);
    if (Status stored = store_summary(summary); !stored) summary.problems.push_back(stored.error().message());
    directory->keep();
    tell(summary, whose);
    return summary.is_complete();
}

/* "checkout-21231", whatever the channel says. */
std::string name_of(const plumb_channel_header& header) {
    std::string name(header.session_name, ::strnlen(header.session_name, sizeof(header.session_name)));
    for (char& letter : name)
        if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
    return fmt::format("{}-{}", name, header.creator_pid);
}

/* Channels of a dump by their numbers: a recorder's own, those in other users' directories and beside /dev/shm, which have its
 * cookie, and the one in which plumb.ko wrote for it. In the memory of a process one channel may be mapped twice. */
std::vector<std::vector<std::size_t>> recordings_in(const DumpedChannels& channels, bool is_of_machine) {
    std::vector<std::vector<std::size_t>> recordings;
    const auto is_beside = [&](const plumb_channel_header& one, const plumb_channel_header& other) {
        if (one.creator_pid != other.creator_pid) return false;
        return one.domain == other.domain ? is_of_machine && one.session_cookie == other.session_cookie
                                          : name_of(one) == name_of(other);
    };
    const auto belongs_to = [&](std::size_t number, const std::vector<std::size_t>& recording) {
        const plumb_channel_header& one = channels.header(number);
        const auto has_domain = [&](std::size_t each) { return channels.header(each).domain == one.domain; };
        const bool is_first_of_domain = std::none_of(recording.begin(), recording.end(), has_domain);
        return std::any_of(recording.begin(), recording.end(), [&](std::size_t each) {
            return is_first_of_domain != has_domain(each) && is_beside(one, channels.header(each));
        });
    };
    for (std::size_t i = 0; i < channels.count(); i++) {
        const auto found = std::find_if(recordings.begin(), recordings.end(),
                                        [&](const auto& recording) { return belongs_to(i, recording); });
        if (found != recordings.end())
            found->push_back(i);
        else
            recordings.push_back({i});
    }
    return recordings;
}

/* Where the trace of each recording of a dump goes: the only one as it was asked for, several below it, by their names. */
std::vector<std::string> directories_of(const DumpedChannels& channels,
                                        const std::vector<std::vector<std::size_t>>& recordings,
                                        const std::string& directory) {
    if (recordings.size() == 1) return {directory};
    const std::string before = directory.empty() ? "plumb-trace-" : directory + "/";
    std::vector<std::string> directories;
    for (const std::vector<std::size_t>& recording : recordings) {
        const std::string wanted = before + name_of(channels.header(recording.front()));
        std::string unused = wanted;
        for (int number = 2; std::count(directories.begin(), directories.end(), unused) != 0; number++)
            unused = fmt::format("{}-{}", wanted, number);
        directories.push_back(unused);
    }
    return directories;
}

/* Whole channels may be missing then, of which nothing else says that they were there. */
std::vector<std::string> problems_of(const MemoryDump& dump, const DumpedChannels& channels) {
    std::vector<std::string> problems;
    if (dump.cut_off_bytes() != 0)
        problems.push_back(
            fmt::format("The dump was cut short: {} of memory are missing at its end, and with them whatever "
                        "other channels were there.",
                        size_text(dump.cut_off_bytes())));
    if (channels.unreadable_pages() != 0)
        problems.push_back(fmt::format(
            "{} of the dump can not be read (damaged, or cut off): other channels may have been there.",
            counted(channels.unreadable_pages(), "page")));
    if (const auto versions = channels.other_versions(); !versions.empty())
        problems.push_back(
            fmt::format("What other versions of Plumb made is in there, too, and left out (format "
                        "{}): the plumb command of such a version extracts it.",
                        fmt::join(versions, ", ")));
    if (channels.left_out() != 0)
        problems.push_back(
            fmt::format("{} more that looked like channels were left out.", channels.left_out()));
    return problems;
}

void add_problems_of(const DumpedChannel& channel, const plumb_channel_header& header,
                     std::vector<std::string>& problems) {
    if (channel.missing_pages != 0)
        problems.push_back(fmt::format(
            "{} of the channel had memory and can not be had from the dump (swapped out, left out when "
            "it was made, or damaged): what was in there is missing.",
            counted(channel.missing_pages, "page")));
    if (has_kernel_events(header))
        problems.push_back(
            "Events of the kernel are missing here: a dump has them in the kernel's own buffers, which are "
            "not looked for.");
}

/* Whether all of it is in the trace. */
bool extract_dumped(const MemoryDump& dump, const DumpedChannels& channels,
                    const std::vector<std::size_t>& recording, ExtractOptions options) {
    const plumb_channel_header& first = channels.header(recording.front());
    const std::string whose = fmt::format("{} (session {}, recorded by process {})", options.which,
                                          name_of(first), first.creator_pid);
    std::vector<std::string> problems = problems_of(dump, channels);
    std::vector<ToDrain> copies;
    std::size_t of_programs = 0;
    for (const std::size_t number : recording) {
        auto channel = channels.copy(number);
        if (!channel) {
            complain(channel.error().with("{} can not be extracted", whose));
            problems.push_back(channel.error().message());
            continue;
        }
        add_problems_of(*channel, channels.header(number), problems);
        const bool is_further = channels.header(number).domain == PLUMB_DOMAIN_USER && of_programs++ != 0;
        copies.push_back(
            {std::move(channel->copy), is_further ? fmt::format("ust-{}", of_programs) : "", options.which});
    }
    if (copies.empty()) return false;
    options.is_of_others = options.is_of_others || dump.is_of_machine();
    const auto made = make_trace(copies, options, whose, std::move(problems));
    if (!made) complain(made.error());
    return made && *made;
}

Error no_channel_in(const MemoryDump& dump, const DumpedChannels& channels, const std::string& path) {
    const Error none("There is no channel in {}.", path);
    if (const auto problems = problems_of(dump, channels); !problems.empty())
        return none.hint("{}", fmt::join(problems, " "));
    return none.hint(
        "{}", dump.is_of_machine()
                  ? "A dump without the page cache (makedumpfile -d with 2 or 4 in its sum) has none."
                  : "A core has the memory that is shared only with bit 3 in /proc/PID/coredump_filter.");
}

/* Out of the dump of a machine or a process: a trace for each channel that is in there. */
int extract_dump(FileDescriptor file, const ExtractOptions& options) {
    const auto dump = MemoryDump::open(std::move(file), options.which);
    if (!dump) return complain(dump.error());
    const auto found = DumpedChannels::find(*dump);
    if (!found) return complain(found.error().with("{} can not be searched for channels", options.which));
    if (found->count() == 0) return complain(no_channel_in(*dump, *found, options.which));
    const auto recordings = recordings_in(*found, dump->is_of_machine());
    if (recordings.size() > 1 && !options.directory.empty() &&
        ::mkdir(options.directory.c_str(), 0777) != 0 && errno != EEXIST)
        return complain(Error::from_errno(errno, "Could not make the directory {}", options.directory));
    const std::vector<std::string> directories = directories_of(*found, recordings, options.directory);
    int status = 0;
    for (std::size_t i = 0; i < recordings.size() && EndNoted::number() == 0; i++) {
        ExtractOptions of_one = options;
        of_one.directory = directories[i];
        if (!extract_dumped(*dump, *found, recordings[i], std::move(of_one))) status = 1;
    }
    return status;
}

/* What not everybody may read does not become readable by being made a trace. */
bool is_for_owner_alone(const FileDescriptor& file) {
    struct stat found {};
    return ::fstat(file.get(), &found) != 0 || (found.st_mode & S_IROTH) == 0;
}

int extract_file(const ExtractOptions& options) {
    if (options.keep || options.remove || options.user) {
        complain(Error("--keep, --remove and --user are for what recorders left here, not for a file."));
        return exit_status_of_wrong_words;
    }
    FileDescriptor file(::open(options.which.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open()) return complain(Error::from_errno(errno, "Could not open {}", options.which));
    if (MemoryDump::is_one(file)) {
        ExtractOptions of_dump = options;
        of_dump.is_of_others = is_for_owner_alone(file);
        return extract_dump(std::move(file), of_dump);
    }
    auto channel = ChannelCopy::read(file, options.which);
    if (!channel) return complain(channel.error());
    ExtractOptions of_file = options;
    of_file.is_of_others = is_for_owner_alone(file);
    std::vector<ToDrain> channels;
    channels.push_back({std::move(*channel), "", options.which});
    const auto made = make_trace(channels, of_file, options.which);
    return made ? (*made ? 0 : 1) : complain(made.error());
}

int remove_left(const std::vector<LeftRecording>& left, const ExtractOptions& options) {
    std::vector<LeftRecording> chosen = left;
    if (!options.which.empty()) {
        const auto one = choose_left(left, options.which);
        if (!one) return complain(one.error());
        chosen = {*one};
    }
    for (const LeftRecording& recording : chosen) {
        if (Status removed = unlink_all(recording); !removed) return complain(removed.error());
        print_out("Removed what was left of {}: {} of shared memory.\n", described(recording),
                  size_text(recording.sum(&LeftChannel::memory_bytes)));
    }
    clean_up_tracefs(); /* what waited beside them */
    return 0;
}

/* 0: the recorder recorded programs alone, or this is only what it left with another user. */
std::uint64_t kernel_cookie_of(const LeftRecording& recording) {
    const LeftChannel& channel = recording.first();
    const bool is_own = recording.parts.front().place.user_id == channel.recorder_user_id;
    return is_own && channel.has_kernel_events ? channel.cookie : 0;
}

/* `is_own`: of the recorder's own user, and the first of these. */
Result<ToDrain> copy_of(const LeftRecording::Part& part, bool is_own) {
    const auto directory = UserDirectory::open_existing(part.place);
    if (!directory) return directory.error();
    const auto file = directory->open_file(part.channel.file_name, false);
    if (!file) return file.error();
    const std::string path = directory->path_of_file(part.channel.file_name);
    auto channel = ChannelCopy::read(*file, path);
    if (!channel) return channel.error();
    return ToDrain{std::move(*channel), is_own ? "" : folder_of(part.place), path, &part};
}

/* What is in the trace as a whole is removed; the rest stays. */
int extract_left(const LeftRecording& recording, const ExtractOptions& options) {
    std::vector<ToDrain> channels;
    std::vector<std::string> problems;
    const uid_t own = options.user_id.value_or(::geteuid());
    for (const LeftRecording::Part& part : recording.parts) {
        auto one = copy_of(part, &part == &recording.parts.front() && part.place.user_id == own);
        if (one)
            channels.push_back(std::move(*one));
        else
            problems.push_back(
                one.error()
                    .with("What was left of programs of user {} is missing", part.place.user_id)
                    .message());
    }
    if (channels.empty()) return complain(Error("{}", fmt::join(problems, "\n")));
    const auto made =
        make_trace(channels, options, described(recording), std::move(problems), kernel_cookie_of(recording));
    if (!made) return complain(made.error());
    for (const ToDrain& channel : channels)
        if (channel.is_written && !options.keep)
            if (Status removed = unlink_part(*channel.part); !removed) return complain(removed.error());
    return *made ? 0 : 1;
}

int run_extract(ExtractOptions options) {
    if (options.user) {
        const auto user_id = parse_user(*options.user);
        if (!user_id) return complain(user_id.error().with("--user"));
        options.user_id = *user_id;
    }
    raise_open_files_limit();   /* of the kernel's buffers, each CPU takes three */
    ::signal(SIGXFSZ, SIG_IGN); /* a file limit is an error of write(), and told */
    ::signal(SIGPIPE, SIG_IGN); /* nobody listens: what is in the trace is to be removed all the same */
    if (options.which.find('/') != std::string::npos) return extract_file(options);
    if (options.which.find_first_not_of("0123456789") != std::string::npos &&
        !options.which.starts_with("left-")) {
        complain(Error(
            "\"{}\" is neither the process id of a recorder nor the path of a file, which has a \"/\" in it.",
            escaped(options.which)));
        return exit_status_of_wrong_words;
    }
    const auto left = find_left({options.user_id, options.remove});
    if (!left) return complain(left.error());
    if (options.remove) return remove_left(*left, options);
    const auto chosen = choose_left(*left, options.which);
    if (!chosen) return complain(chosen.error());
    return extract_left(*chosen, options);
}

void add_extract(CLI::App& app) {
    auto options = std::make_shared<ExtractOptions>();
    CLI::App* const command =
        app.add_subcommand("extract", "Make a trace of what a killed plumb record left in shared memory");
    command->add_option(
        "RECORDER", options->which,
        "Process id of the killed plumb record; not needed if there is only one. Or the path of a file: "
        "a channel, the core of a program, the dump of a machine");
    command
        ->add_option("-o,--output", options->directory, "Directory of the trace; default: plumb-trace-<date>")
        ->check(not_empty())
        ->type_name("DIR");
    CLI::Option* const force =
        command->add_flag("--force", options->force, "Replace the trace that is in DIR");
    CLI::Option* const keep = command->add_flag(
        "--keep", options->keep,
        "Leave it in shared memory, to be extracted again; events of the kernel stay where they are");
    command
        ->add_flag("--remove", options->remove, "Make no trace: only give the memory back, of all or of one")
        ->excludes(keep)
        ->excludes(force);
    command
        ->add_option("--user", options->user, "As root: what recorders left with this user, and nobody else")
        ->type_name("USER");
    command->footer(
        "What is left is there until the next recording begins, and for an hour from then, of the last four\n"
        "recorders. `plumb list` shows it.");
    command->callback([options] { finish(run_extract(*options)); });
}

const Command extract_command(add_extract, 24);

} // namespace
} // namespace plumb
