/*
 * plumb boot: has the next start of the machine recorded from the first instruction of its init, without a kernel module.
 * plumb-init (probes/init) stands in front of the real init then, by the kernel's command line; what it is to do is in
 * /etc/plumb/boot. disable puts the machine back exactly as it was.
 */
#include "base/file.h"
#include "base/output_buffer.h"
#include "base/processes.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/preload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

namespace plumb {
namespace {

namespace fs = std::filesystem;

constexpr const char* boot_file = "etc/plumb/boot";
constexpr const char* grub_file = "etc/default/grub.d/plumb.cfg";
constexpr const char* folder = "/run/plumb-boot";
constexpr std::size_t words_max = 100; /* plumb-init takes so many, and a few of its own */
constexpr std::size_t settings_bytes_max = 16000;

struct BootOptions {
    std::string what;
    std::string root = "/"; /* of the system that is changed */
    std::string init;       /* empty: the usual ones */
    std::vector<std::string> preload;
    std::vector<std::string> record; /* options of plumb record */
};

fs::path in_root(const BootOptions& options, const std::string& path) {
    return fs::path(options.root) / path;
}

bool is_this_system(const BootOptions& options) {
    return options.root == "/";
}

Result<std::string> find_boot_program() {
    std::error_code failed;
    const fs::path self = fs::read_symlink("/proc/self/exe", failed).parent_path();
    std::vector<fs::path> tried = {self / "../probes/init", self / "../lib/plumb", self / "../lib64/plumb"};
    for (const fs::directory_entry& entry : fs::directory_iterator(self / "../lib", failed))
        tried.push_back(entry.path() / "plumb");
    for (const fs::path& directory : tried)
        if (fs::is_regular_file(directory / "plumb-init", failed))
            return fs::canonical(directory / "plumb-init", failed).string();
    return Error("There is no plumb-init beside this plumb command.")
        .hint("It is installed with Plumb, in lib/plumb.");
}

/* Directories above these files that are not there yet, the deepest first. */
std::vector<std::string> missing_directories(const BootOptions& options) {
    std::vector<std::string> missing;
    for (const char* file : {boot_file, grub_file}) {
        fs::path so_far;
        for (const fs::path& part : fs::path(file).parent_path()) {
            so_far /= part;
            std::error_code failed;
            if (!fs::exists(in_root(options, so_far), failed))
                missing.insert(missing.begin(), so_far.string());
        }
    }
    return missing;
}

/* Goes to the kernel's command line, and through a shell's variable. */
bool is_plain_path(const std::string& path) {
    return path.starts_with('/') && path.find("..") == std::string::npos &&
           std::all_of(path.begin(), path.end(), [](unsigned char letter) {
               return std::isalnum(letter) != 0 ||
                      std::string_view("/._+-").find(static_cast<char>(letter)) != std::string_view::npos;
           });
}

/* Of another system, links lead where they do here. */
Status check_root(const BootOptions& options) {
    if (is_this_system(options)) return ok();
    for (const char* path : {"etc", "etc/plumb", boot_file, "etc/default", "etc/default/grub.d", grub_file}) {
        std::error_code failed;
        if (fs::is_symlink(fs::symlink_status(in_root(options, path), failed)))
            return Error("{} is a link, which may lead out of that system.", in_root(options, path).string())
                .hint("Run `plumb boot` in it, by chroot.");
    }
    return ok();
}

Status check_words(const BootOptions& options) {
    for (const std::string& word : options.record)
        if (word == "-o" || word == "--output" || word.starts_with("--output=") || word == "--")
            return Error("The recording of a boot goes to {}/trace, and has no command.", folder);
    if (!options.init.empty() && !is_plain_path(options.init))
        return Error("{} can not be an init: a path from the root on, of letters, digits and ._+- alone.",
                     escaped(options.init));
    return ok();
}

/* The recording of a boot, but for its command. */
std::vector<std::string> recorder_words(const BootOptions& options, const std::string& directory) {
    std::error_code failed;
    std::vector<std::string> words = {fs::read_symlink("/proc/self/exe", failed).string(),
                                      "record",
                                      "-q",
                                      "--force",
                                      "-o",
                                      directory,
                                      "--exe",
                                      "*"};
    words.insert(words.end(), options.record.begin(), options.record.end());
    return words;
}

/* What plumb-init reads: see there. */
Result<std::string> settings_text(const BootOptions& options, const std::vector<std::string>& made) {
    std::string text = "# Written by `plumb boot enable`, removed by `plumb boot disable`.\n";
    const auto add = [&text](std::string_view name, const std::string& value) {
        text += fmt::format("{}={}\n", name, value);
    };
    if (!options.init.empty()) add("init", options.init);
    if (!options.preload.empty()) {
        const auto preload = preload_variable(options.preload, nullptr);
        if (!preload) return preload.error();
        add("preload", *preload);
    }
    add("folder", folder);
    for (const std::string& path : made)
        add("made", path);
    const std::vector<std::string> words = recorder_words(options, fmt::format("{}/trace", folder));
    for (const std::string& word : words) {
        if (word.find('\n') != std::string::npos)
            return Error("A word of a command line that is kept has no newline.");
        add("record", word);
    }
    if (words.size() > words_max || text.size() > settings_bytes_max)
        return Error("These are too many options for a recording of the boot.");
    return text;
}

/* The values of one name in the settings that are there. */
std::vector<std::string> values_of(std::string_view settings, std::string_view name) {
    std::vector<std::string> values;
    const std::string start = fmt::format("{}=", name);
    while (!settings.empty()) {
        const std::size_t end = std::min(settings.find('\n'), settings.size());
        const std::string_view line = settings.substr(0, end);
        if (line.starts_with(start)) values.emplace_back(line.substr(start.size()));
        settings.remove_prefix(std::min(end + 1, settings.size()));
    }
    return values;
}

/* The exit status; nothing if it could not be run. */
std::optional<int> run(const std::vector<std::string>& words) {
    std::vector<char*> arguments;
    for (const std::string& word : words)
        arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_t child = 0;
    if (::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) return {};
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The options have to work now, or they will not at the next boot, when nobody is there to be told. */
Status try_options(const BootOptions& options) {
    std::error_code failed;
    std::string place = "/tmp/plumb-boot-XXXXXX";
    if (::mkdtemp(place.data()) == nullptr)
        return Error::from_errno(errno, "Could not make a directory in /tmp");
    std::vector<std::string> words = recorder_words(options, place + "/trace");
    words.insert(words.end(), {"--", "sleep", "0.1"});
    const auto status = run(words);
    fs::remove_all(place, failed);
    if (!status || *status != 0)
        return Error("`plumb record {}` does not work here, so it would not at the next boot.",
                     fmt::join(options.record, " "));
    return ok();
}

/* Debian's way to the kernel's command line; elsewhere it has to be done by hand. */
/* Whether that went well. */
bool tell_boot_loader(const BootOptions& options, const std::string& argument, bool is_to_be_there) {
    const bool has_grub = fs::exists(in_root(options, "usr/sbin/update-grub"));
    if (!has_grub)
        print_out("Now {} the kernel's command line, in your boot loader: {}\n",
                  is_to_be_there ? "add this to" : "take this off", argument);
    else if (!is_this_system(options))
        print_out("Now run update-grub in {}.\n", escaped(options.root));
    else if (run({"/usr/sbin/update-grub"}) != 0) {
        print_error("plumb: update-grub has failed: run it again before you start the machine anew.\n");
        return false;
    }
    return true;
}

/* No plumb-init is told of before it has its settings. */
Status write_files(const BootOptions& options, const std::vector<std::string>& missing,
                   const std::string& settings, const std::string& argument) {
    for (auto path = missing.rbegin(); path != missing.rend(); ++path) {
        std::error_code failed;
        if (!fs::create_directory(in_root(options, *path), failed) && failed)
            return Error::from_errno(failed.value(), "Could not make the directory {}",
                                     in_root(options, *path).string());
    }
    if (Status stored = replace_file(in_root(options, boot_file), settings); !stored) return stored;
    return replace_file(in_root(options, grub_file),
                        fmt::format("# Written by `plumb boot enable`, removed by `plumb boot disable`.\n"
                                    "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {}\"\n",
                                    argument));
}

/* Files, and of the directories those that were made for them and are empty: none but these can be meant. */
void take_back(const BootOptions& options, const std::vector<std::string>& made) {
    for (const char* file : {grub_file, boot_file})
        ::unlink(in_root(options, file).c_str());
    for (const char* path : {"etc/plumb", "etc/default/grub.d", "etc/default", "etc"})
        if (std::count(made.begin(), made.end(), path) != 0) ::rmdir(in_root(options, path).c_str());
}

int enable(const BootOptions& options) {
    std::error_code failed;
    if (fs::exists(in_root(options, boot_file), failed))
        return complain(Error("It is enabled already.").hint("`plumb boot disable` first."));
    const auto program = find_boot_program();
    if (!program) return complain(program.error());
    if (!is_plain_path(*program))
        return complain(Error("{} can not stand on the kernel's command line.", escaped(*program))
                            .hint("Install Plumb where paths have letters, digits and ._+- alone."));
    if (Status sound = check_words(options); !sound) return complain(sound.error());
    if (!options.init.empty() && (::access(in_root(options, options.init.substr(1)).c_str(), X_OK) != 0 ||
                                  !fs::is_regular_file(in_root(options, options.init.substr(1)), failed)))
        return complain(Error("{} can not be an init: it is no program there.", options.init));
    if (::access(in_root(options, program->substr(1)).c_str(), X_OK) != 0)
        return complain(Error("There is no {} in {}: a kernel that is told of it would not start.", *program,
                              escaped(options.root))
                            .hint("Install Plumb there first, where it is here, or run the plumb of that "
                                  "system by chroot."));
    if (is_this_system(options))
        if (Status works = try_options(options); !works) return complain(works.error());
    const std::vector<std::string> missing = missing_directories(options);
    const auto settings = settings_text(options, missing);
    if (!settings) return complain(settings.error());
    const std::string argument = fmt::format("init={}", *program);
    if (Status written = write_files(options, missing, *settings, argument); !written) {
        take_back(options, missing);
        return complain(written.error());
    }
    const bool is_told = tell_boot_loader(options, argument, true);
    print_out("The next boot is recorded, into {}/trace. `plumb boot stop` ends that, `plumb boot disable` "
              "forgets it.\n"
              "Should the machine not come up: plumb.boot=off on the kernel's command line, or the boot "
              "menu's recovery mode.\n",
              folder);
    return is_told ? 0 : 1;
}

int disable(const BootOptions& options) {
    const auto settings = read_small_file(in_root(options, boot_file));
    std::error_code failed;
    const bool has_grub_file = fs::exists(fs::symlink_status(in_root(options, grub_file), failed));
    if (!settings && settings.error().number() != ENOENT) return complain(settings.error());
    if (!settings && !has_grub_file) return complain(Error("It is not enabled."));
    const auto program = find_boot_program();
    take_back(options, settings ? values_of(*settings, "made") : std::vector<std::string>());
    for (const char* file : {grub_file, boot_file})
        if (fs::exists(fs::symlink_status(in_root(options, file), failed)))
            return complain(Error("Could not remove {}.", in_root(options, file).string()));
    const bool is_told =
        tell_boot_loader(options, program ? fmt::format("init={}", *program) : "init=.../plumb-init", false);
    print_out("The next boot is not recorded.\n");
    return is_told ? 0 : 1;
}

/* Who holds this boot's recording on; nothing if it is over, or there is none. */
std::optional<pid_t> holder() {
    const auto text = read_small_file(fmt::format("{}/hold", folder));
    if (!text) return {};
    pid_t process = 0;
    if (std::from_chars(text->data(), text->data() + text->size(), process).ec != std::errc() || process <= 1)
        return {};
    const auto words = read_small_file(fmt::format("/proc/{}/cmdline", process));
    if (!words || words->find(std::string("\0--hold\0", 8)) == std::string::npos) return {};
    return process;
}

int show_status(const BootOptions& options) {
    std::error_code failed;
    const auto settings = read_small_file(in_root(options, boot_file));
    const auto words = settings ? values_of(*settings, "record") : std::vector<std::string>();
    print_out("Next boot: {}\n",
              settings ? fmt::format("recorded, by `{}`", fmt::join(words, " ")) : "not recorded");
    if (!is_this_system(options)) return 0;
    const auto line = read_small_file("/proc/cmdline");
    const bool was_asked = line && line->find("plumb-init") != std::string::npos;
    if (const auto process = holder())
        print_out("This boot: is being recorded, into {}/trace (process {}); `plumb boot stop` ends that\n",
                  folder, *process);
    else if (fs::exists(fmt::format("{}/trace/summary.json", folder), failed))
        print_out("This boot: was recorded, into {}/trace\n", folder);
    else if (was_asked)
        print_out("This boot: was to be recorded, and was not: {}/log, and plumb-init in the kernel's log "
                  "(dmesg), say why\n",
                  folder);
    else
        print_out("This boot: not recorded\n");
    return 0;
}

int stop() {
    const auto process = holder();
    if (!process)
        return complain(
            Error("No recording of this boot is under way.").hint("`plumb boot status` says more."));
    if (::kill(*process, SIGTERM) != 0)
        return complain(Error::from_errno(errno, "Could not end process {}", *process));
    const std::string trace = fmt::format("{}/trace", folder);
    for (int i = 0; i < 600; i++) {
        std::error_code failed;
        if (fs::exists(trace + "/summary.json", failed)) {
            print_out("The trace is in {}.\n", trace);
            return 0;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return complain(Error("The recorder has not ended within a minute.").hint("{}/log may say why.", folder));
}

int run_boot(const BootOptions& options) {
    if (options.what != "enable" &&
        (!options.record.empty() || !options.preload.empty() || !options.init.empty())) {
        complain(Error("Options of the recording go with `plumb boot enable`."));
        return exit_status_of_wrong_words;
    }
    if (options.what != "status" && is_this_system(options) && ::geteuid() != 0)
        return complain(Error("Only root changes how the machine boots."));
    if (Status sound = check_root(options); !sound) return complain(sound.error());
    if (options.what == "enable") return enable(options);
    if (options.what == "disable") return disable(options);
    return options.what == "stop" ? stop() : show_status(options);
}

void add_boot(CLI::App& app) {
    auto options = std::make_shared<BootOptions>();
    CLI::App* const command =
        app.add_subcommand("boot", "Record the machine's next boot from the first instruction of its init");
    command
        ->add_option("WHAT", options->what,
                     "enable or disable it for the next boots, show its status, stop this boot's recording")
        ->required()
        ->check(CLI::IsMember({"enable", "disable", "status", "stop"}));
    command
        ->add_option("--init", options->init, "The real init; default: /sbin/init, as the kernel chooses it")
        ->check(CLI::Validator(
            [](const std::string& path) { return path.starts_with('/') ? "" : "a path from the root on"; },
            ""))
        ->type_name("PATH");
    command
        ->add_option("--preload", options->preload,
                     "Load a probe into init and all that it starts: pthread. May be repeated")
        ->type_name("PROBE");
    command
        ->add_option("--root", options->root,
                     "Change the system whose root is DIR, such as an image, not this one")
        ->check(CLI::ExistingDirectory)
        ->type_name("DIR");
    command->footer(
        "plumb boot enable [OPTIONS] [-- RECORD_OPTIONS]   the recording's, such as -k 'sched:*'");
    command->callback([options] {
        options->record = words_behind_dashes().words;
        finish(run_boot(*options));
    });
}

const Command boot_command(add_boot, 85);

} // namespace
} // namespace plumb
