/*
 * plumb receive LINE: makes a trace of what `plumb record --to` sends over a serial line.
 */
#include "base/file.h"
#include "base/folder.h"
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/end_noted.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/status_line.h"
#include "cli/summary_file.h"
#include "consumerd/line/line_receiver.h"
#include "consumerd/line/serial_line.h"
#include "consumerd/sink/trace_directory.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

/* The number of an error, which no system call has. */
constexpr int wrong_words = -2;
constexpr int silence_ms = 2'000;
constexpr int look_interval_ms = 200;
constexpr std::size_t read_bytes = 64 * 1024;

struct ReceiveOptions {
    std::string line;
    std::string directory;
    bool force = false;
};

/* Any number of bytes that are there: 0 at the end of what can come, and -1 where nothing is there yet. */
class Input {
public:
    static Result<Input> open(const std::string& line) {
        if (line == "-") {
            FileDescriptor input(::dup(STDIN_FILENO));
            if (!input.is_open()) return Error::from_errno(errno, "Could not read from standard input");
            return Input(std::move(input), "standard input");
        }
        const auto place = SerialPlace::parse(line);
        if (!place) return place.error().as(wrong_words);
        auto opened = open_serial(*place, O_RDONLY);
        if (!opened) return opened.error();
        return Input(std::move(*opened), place->path);
    }

    Result<ssize_t> read(std::span<std::byte> into, bool has_begun) const {
        pollfd readable{file_.get(), POLLIN, 0};
        if (::poll(&readable, 1, look_interval_ms) <= 0) return ssize_t{-1};
        const ssize_t bytes = ::read(file_.get(), into.data(), into.size());
        if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return ssize_t{-1};
        if (bytes < 0 && errno == EIO) return ssize_t{0}; /* a terminal that was hung up */
        if (bytes < 0) return Error::from_errno(errno, "Could not read from {}", name_);
        if (bytes == 0 && is_fifo_ && !has_begun) { /* nobody has opened it to write yet */
            ::usleep(look_interval_ms * 1000);
            return ssize_t{-1};
        }
        return bytes;
    }
    const std::string& name() const { return name_; }

private:
    Input(FileDescriptor file, std::string name) : file_(std::move(file)), name_(std::move(name)) {
        struct stat info {};
        is_fifo_ = name_ != "standard input" && ::fstat(file_.get(), &info) == 0 && S_ISFIFO(info.st_mode);
    }

    FileDescriptor file_;
    std::string name_;
    bool is_fifo_ = false;
};

Status receive(const Input& input, LineReceiver& receiver) {
    std::vector<std::byte> bytes(read_bytes);
    for (int silent_ms = 0; !receiver.has_end() && !receiver.has_another() && EndNoted::number() == 0;) {
        const auto read = input.read(bytes, receiver.has_begun());
        if (!read) return read.error();
        if (*read == 0) break;
        if (*read > 0) {
            silent_ms = 0;
            if (Status taken = receiver.take(std::span(bytes).first(static_cast<std::size_t>(*read))); !taken)
                return taken;
        } else if ((silent_ms += look_interval_ms) >= silence_ms) {
            silent_ms = 0;
            if (Status taken = receiver.silence(); !taken) return taken;
        }
    }
    return receiver.finish();
}

/* What of it is not there, or may not be. */
std::vector<std::string> tell(const LineReceiver& receiver, const std::string& line) {
    std::vector<std::string> problems;
    const auto say = [&problems](const std::string& what) {
        print_error("{}\n", what);
        problems.push_back(what);
    };
    print_error("Received {} ({}) over {}.\n", counted(receiver.packets(), "packet"),
                size_text(receiver.packet_bytes()), without_controls(line));
    if (receiver.missing_frames() > 0)
        say(fmt::format("Lost: {} did not arrive, or not whole.",
                        counted(receiver.missing_frames(), "frame")));
    if (receiver.damaged_frames() + receiver.skipped_bytes() > 0)
        print_error("Damaged on the line: {}; {} were skipped.\n",
                    counted(receiver.damaged_frames(), "frame"), counted(receiver.skipped_bytes(), "byte"));
    if (receiver.refused_frames() > 0)
        say(fmt::format("{} came whole, but no part of this trace, or once more.",
                        counted(receiver.refused_frames(), "frame")));
    for (const std::string& domain : receiver.domains_without_metadata())
        say(fmt::format("The metadata of {} did not arrive: what there is of it can not be read.", domain));
    for (const std::string& name : receiver.incomplete_files())
        say(receiver.has_file(name)
                ? fmt::format("The last {} did not arrive whole: the one before it is there.", name)
                : fmt::format("{} did not arrive whole{}.", name,
                              name.ends_with("summary.json") ? ": nobody knows why anything may be missing"
                                                             : ": what it describes can not be read"));
    if (receiver.has_another())
        say("Another recording began on the line before this one had ended: plumb receive takes one at a "
            "time.");
    else if (!receiver.has_end())
        say("The end did not arrive: the sender was killed, or cut off, or goes on.");
    return problems;
}

/* The recorder's summary does not know what the line lost: whoever has the trace later has that alone. */
void note_in_summary(const Folder& folder, const std::vector<std::string>& problems) {
    if (problems.empty()) return;
    auto read = read_summary(folder.path() + "/summary.json");
    if (!read) {
        if (read.error().number() != ENOENT)
            print_error("plumb: what the line has lost is not noted in the summary: {}\n",
                        without_controls(read.error().message()));
        return;
    }
    nlohmann::ordered_json& summary = *read;
    summary["complete"] = false;
    if (!summary["problems"].is_array()) summary["problems"] = nlohmann::ordered_json::array();
    for (const std::string& problem : problems)
        summary["problems"].push_back("On the line: " + problem);
    using Json = nlohmann::ordered_json;
    if (Status written = folder.replace_file(
            "summary.json", summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
        !written)
        print_error("plumb: {}\n", without_controls(written.error().message()));
}

int run_receive(const ReceiveOptions& options) {
    ::signal(SIGXFSZ, SIG_IGN); /* a file limit is an error of write(), and told */
    ::signal(SIGPIPE, SIG_IGN);
    const EndNoted end_noted;
    const auto input = Input::open(options.line);
    if (!input) {
        const int failed = complain(input.error());
        return input.error().number() == wrong_words ? exit_status_of_wrong_words : failed;
    }
    auto directory = TraceDirectory::claim(options.directory, options.force, ::geteuid() == 0, say_error);
    if (!directory) return complain(directory.error());
    const auto folder = Folder::open(directory->path());
    if (!folder) return complain(folder.error());
    LineReceiver receiver(*folder);
    Status received = receive(*input, receiver);
    if (!receiver.has_trace())
        return complain(
            received
                ? Error("Nothing came over {}.", input->name())
                      .hint("Does `plumb record --to serial:...` run on the other side, at the same speed?")
                : received.error());
    directory->keep();
    const std::vector<std::string> problems = tell(receiver, input->name());
    note_in_summary(*folder, problems);
    if (directory->check()) print_error("The trace is in {}.\n", escaped(directory->path()));
    if (!received) return complain(received.error().hint("What came behind it was not taken."));
    return problems.empty() ? 0 : 1;
}

void add_receive(CLI::App& app) {
    auto options = std::make_shared<ReceiveOptions>();
    CLI::App* const command =
        app.add_subcommand("receive", "Make a trace of what plumb record --to sends over a serial line");
    command
        ->add_option("LINE", options->line,
                     "The line, /dev/ttyS0 or /dev/ttyS0:BAUD (115200), a FIFO, or a file; -: standard input")
        ->required();
    command
        ->add_option("-o,--output", options->directory, "Directory of the trace; default: plumb-trace-<date>")
        ->check(not_empty())
        ->type_name("DIR");
    command->add_flag("--force", options->force, "Replace the trace that is in DIR");
    command->footer("Ends when the recording has ended, or with Ctrl-C. Start it before the recording.");
    command->callback([options] { finish(run_receive(*options)); });
}

const Command receive_command(add_receive, 25);

} // namespace
} // namespace plumb
