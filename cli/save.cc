/* plumb save SESSION [FILE], plumb load FILE: a session's description, to be kept and made again. */
#include "base/file.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/session_commands.h"
#include "consumerd/daemon/client.h"
#include "consumerd/daemon/session_description.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

namespace plumb {
namespace {

struct SaveWords {
    SessionWords session;
    std::string file;
};

/* Into a terminal, a FIFO or another device, as a shell's `>` would. */
Status write_into(const std::string& path, std::string_view text) {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
    if (!file.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    while (!text.empty()) {
        const ssize_t written = ::write(file.get(), text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return Error::from_errno(errno, "Could not write to {}", path);
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return ok();
}

/* What a link leads to is written, and the link stays; nothing but a regular file is replaced. */
Status keep(const std::string& path, std::string_view text) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return replace_file(path, text);
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return write_into(path, text);
    const std::unique_ptr<char, void (*)(void*)> target(::realpath(path.c_str(), nullptr), std::free);
    const std::string file = target ? target.get() : path;
    if (Status replaced = replace_file(file, text); !replaced) return replaced;
    ::chmod(file.c_str(), info.st_mode & 07777); /* who could read it before */
    return ok();
}

int run_save(const SaveWords& words) {
    const auto answer = ask_daemon("save", {{"session", words.session.session}}, say_error);
    if (!answer) return complain(answer.error());
    const Json description = answer->value("description", Json::object());
    const std::string text = description.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    if (words.file.empty() || words.file == "-") {
        put_out(text);
        return 0;
    }
    if (Status stored = keep(words.file, text); !stored) return complain(stored.error());
    if (words.session.json) put_out(Json{{"file", words.file}}.dump(2) + "\n");
    return 0;
}

struct LoadWords {
    std::string file, name, output;
    bool json = false;
};

int run_load(const LoadWords& words) {
    constexpr std::size_t most_bytes = std::size_t{1} << 20;
    const auto text = read_small_file(words.file, most_bytes);
    if (!text) return complain(text.error());
    const auto object = parse_message(*text);
    if (!object)
        return complain(Error("{} holds no JSON object.", words.file).hint("`plumb save` writes one."));
    auto description = read_description(*object);
    if (!description) return complain(description.error().with("{}", words.file));
    if (!words.name.empty()) description->name = words.name;
    if (!words.output.empty()) {
        const auto output = output_from_root(words.output, description->name);
        if (!output) return complain(output.error());
        description->output = *output;
    }
    return ask_for("create", {{"description", description_as_json(*description, false)}}, words.json,
                   [](const Json& answer) { say_directory(answer.value("description", Json::object())); });
}

void add_save(CLI::App& app) {
    auto words = std::make_shared<SaveWords>();
    CLI::App* const command = app.add_subcommand("save", "Print, or keep, what a session is");
    add_session(*command, words->session);
    command->add_option("FILE", words->file, "Where it is kept; default: it is printed");
    command->footer(
        "It is JSON: everything that plumb create and plumb enable were told. plumb load makes the "
        "session again.");
    command->callback([words] { finish(run_save(*words)); });
}

void add_load(CLI::App& app) {
    auto words = std::make_shared<LoadWords>();
    CLI::App* const command = app.add_subcommand("load", "Make a session that plumb save has kept");
    command->add_option("FILE", words->file, "What plumb save has written")->required()->check(not_empty());
    command->add_option("--name", words->name, "Another name than the saved one")
        ->check(not_empty())
        ->type_name("SESSION");
    command->add_option("-o,--output", words->output, "Another directory than the saved one; it must be new")
        ->check(not_empty())
        ->type_name("DIR");
    add_json(*command, words->json);
    command->footer("It is started if it was when it was saved. Prints where its trace will be.");
    command->callback([words] { finish(run_load(*words)); });
}

const Command save_command(add_save, 19), load_command(add_load, 20);

} // namespace
} // namespace plumb
