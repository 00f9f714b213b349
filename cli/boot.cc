/*
 * plumb boot: has the next start of the machine recorded from the first instruction of its init, or from the initramfs on, with
 * plumb.ko or without. plumb-init (probes/init) stands in front of the real init then, by the kernel's command line; what it is
 * to do is in /etc/plumb/boot. disable puts the machine back exactly as it was.
 */
#include "base/file.h"
#include "base/output_buffer.h"
#include "base/processes.h"
#include "cli/boot_files.h"
#include "cli/boot_parameters.h"
#include "cli/boot_recording.h"
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
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace plumb {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t words_max = 100; /* plumb-init takes so many, and a few of its own */
constexpr std::size_t settings_bytes_max = 16000;

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

/* Goes to the kernel's command line, and through a shell's variable. */
bool is_plain_path(const std::string& path) {
    return path.starts_with('/') && path.find("..") == std::string::npos &&
           std::all_of(path.begin(), path.end(), [](unsigned char letter) {
               return std::isalnum(letter) != 0 ||
                      std::string_view("/._+-").find(static_cast<char>(letter)) != std::string_view::npos;
           });
}

Status check_words(const BootOptions& options) {
    const bool has_command =
        std::find(options.record.begin(), options.record.end(), "--") != options.record.end();
    const auto recording = recording_of(options);
    if (has_command || (recording && !recording->directory.empty()))
        return Error("The recording of a boot goes to {}, and has no command.", boot_trace);
    if (!recording) return recording.error();
    if (!options.init.empty() && !is_plain_path(options.init))
        return Error("{} can not be an init: a path from the root on, of letters, digits and ._+- alone.",
                     escaped(options.init));
    return ok();
}

/* The init that the kernel is told of now, if that is none of ours: the last one counts. */
std::string init_of_this_boot() {
    const auto line = read_small_file("/proc/cmdline");
    std::string init;
    std::istringstream words(line ? *line : std::string());
    for (std::string word; words >> word;)
        if (word.starts_with("init=")) init = word.substr(5);
    return init.ends_with("/plumb-init") ? std::string() : init;
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
    std::string text;
    const auto add = [&text](std::string_view name, const std::string& value) {
        text += fmt::format("{}={}\n", name, value);
    };
    if (!options.init.empty()) add("init", options.init);
    if (!options.preload.empty()) {
        const auto preload = preload_variable(options.preload, nullptr);
        if (!preload) return preload.error();
        add("preload", *preload);
    }
    if (options.module) add("module", "yes");
    if (options.initramfs) add("initramfs", "yes"); /* for `disable` */
    add("folder", boot_folder);
    for (const std::string& path : made)
        add("made", path);
    std::vector<std::string> words = recorder_words(options, boot_trace);
    if (options.kernel_start) words.emplace_back("--kernel-start");
    for (const std::string& word : words) {
        if (word.find('\n') != std::string::npos)
            return Error("A word of a command line that is kept has no newline.");
        add("record", word);
    }
    if (words.size() > words_max || text.size() > settings_bytes_max)
        return Error("These are too many options for a recording of the boot.");
    return text;
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

/* The file is part of what the initramfs holds. Whether that went well. */
bool renew_initramfs(const BootFiles& files) {
    if (!files.is_of_this_system()) {
        print_out("Now run update-initramfs -u in {}.\n", escaped(files.path("").string()));
        return true;
    }
    if (run({"/usr/sbin/update-initramfs", "-u", "-k", "all"}) == 0) return true;
    print_error("plumb: update-initramfs has failed: run it again before you start the machine anew.\n");
    return false;
}

/* Debian's way to the kernel's command line; elsewhere it has to be done by hand. Whether that went well. */
bool tell_boot_loader(const BootFiles& files, const std::string& argument, bool is_to_be_there) {
    if (!fs::exists(files.path("usr/sbin/update-grub")))
        print_out("Now {} the kernel's command line, in your boot loader: {}\n",
                  is_to_be_there ? "add this to" : "take this off", argument);
    else if (!files.is_of_this_system())
        print_out("Now run update-grub in {}.\n", escaped(files.path("").string()));
    else if (run({"/usr/sbin/update-grub"}) != 0) {
        print_error("plumb: update-grub has failed: run it again before you start the machine anew.\n");
        return false;
    }
    return true;
}

/* What a machine that is told of it needs. */
Status check_system(const BootOptions& options, const BootFiles& files, const std::string& plumb_init) {
    std::error_code failed;
    if (!is_plain_path(plumb_init))
        return Error("{} can not stand on the kernel's command line.", escaped(plumb_init))
            .hint("Install Plumb where paths have letters, digits and ._+- alone.");
    if (Status sound = check_words(options); !sound) return sound;
    if (!options.init.empty() && (::access(files.path(options.init.substr(1)).c_str(), X_OK) != 0 ||
                                  !fs::is_regular_file(files.path(options.init.substr(1)), failed)))
        return Error("{} can not be an init: it is no program there.", options.init);
    if (!options.init.empty() &&
        fs::equivalent(files.path(options.init.substr(1)), files.path(plumb_init.substr(1)), failed))
        return Error("{} can not be the real init: it is what stands in front of that.", options.init);
    if (const std::string now = files.is_of_this_system() ? init_of_this_boot() : std::string();
        !now.empty() && options.init.empty())
        return Error("This machine's init is {}, by the kernel's command line.", escaped(now))
            .hint("Add --init {}: the kernel knows one init= alone.", escaped(now));
    if (::access(files.path(plumb_init.substr(1)).c_str(), X_OK) != 0)
        return Error("There is no {} in {}: a kernel that is told of it would not start.", plumb_init,
                     escaped(options.root))
            .hint("Install Plumb there first, where it is here, or run the plumb of that system by chroot.");
    if (options.initramfs && !files.has_initramfs_tools())
        return Error("There is no initramfs-tools: --initramfs is for the initramfs that it makes.")
            .hint("Without --initramfs, the recording begins in front of init.");
    if (options.module && !files.has_module())
        return Error("There is no plumb.ko for any kernel in {}.", files.path("lib/modules").string())
            .hint("Install it first (docs/module.md, DKMS), or leave out --module.");
    return ok();
}

int enable(const BootOptions& options, const BootFiles& files) {
    if (files.settings())
        return complain(Error("It is enabled already.").hint("`plumb boot disable` first."));
    const auto program = find_boot_program();
    if (!program) return complain(program.error());
    if (Status sound = check_system(options, files, *program); !sound) return complain(sound.error());
    if (files.is_of_this_system())
        if (Status works = try_options(options); !works) return complain(works.error());
    const auto parameters = boot_parameters(options, *program);
    if (!parameters) return complain(parameters.error());
    const std::vector<std::string> missing = files.missing_directories(options.initramfs);
    const auto settings = settings_text(options, missing);
    if (!settings) return complain(settings.error());
    if (Status written =
            files.write(options, *settings, recorder_words(options, boot_trace)[0], *program, *parameters);
        !written) {
        (void)files.take_back(missing);
        return complain(written.error());
    }
    const bool has_initramfs = !options.initramfs || renew_initramfs(files);
    const bool is_told = tell_boot_loader(files, *parameters, true);
    if (!has_initramfs || !is_told) return 1;
    print_out(
        "The next boot is recorded, into {}. `plumb boot stop` ends that, `plumb boot disable` forgets it.\n"
        "Should the machine not come up: plumb.boot=off on the kernel's command line, or the boot "
        "menu's recovery mode.\n",
        boot_trace);
    return 0;
}

/* The settings go last: as long as they are there, it is enabled, and who was interrupted can begin again. */
int disable(const BootFiles& files) {
    const auto settings = files.settings();
    if (!settings && settings.error().number() != ENOENT) return complain(settings.error());
    if (!files.has_any()) return complain(Error("It is not enabled."));
    const auto program = find_boot_program();
    /* They may be gone, and the initramfs have them still, where an earlier one was interrupted. */
    const bool has_initramfs_part =
        files.has_scripts() || (settings && !values_of(*settings, "initramfs").empty());
    const Status scripts_gone = files.remove_scripts();
    const bool is_told =
        tell_boot_loader(files,
                         program ? fmt::format("init={}, and trace_event= and what is behind it", *program)
                                 : "init=.../plumb-init",
                         false);
    const bool has_initramfs = !has_initramfs_part || renew_initramfs(files);
    if (!scripts_gone) return complain(scripts_gone.error());
    if (!has_initramfs || !is_told) return 1;
    if (Status gone = files.take_back(settings ? values_of(*settings, "made") : std::vector<std::string>());
        !gone)
        return complain(gone.error());
    print_out("The next boot is not recorded.\n");
    return 0;
}

int show_status(const BootFiles& files) {
    std::error_code failed;
    const auto settings = files.settings();
    const auto words = settings ? values_of(*settings, "record") : std::vector<std::string>();
    print_out("Next boot: {}\n", settings ? fmt::format("recorded{}, by `{}`",
                                                        files.has_scripts() ? " from the initramfs on" : "",
                                                        escaped(fmt::format("{}", fmt::join(words, " "))))
                                          : "not recorded");
    if (!files.is_of_this_system()) return 0;
    if (::geteuid() != 0) {
        print_out("This boot: only root is told\n");
        return 0;
    }
    const auto line = read_small_file("/proc/cmdline");
    const bool was_asked = line && line->find("plumb-init") != std::string::npos;
    if (const auto process = boot_recording_holder())
        print_out("This boot: is being recorded, into {} (process {}); `plumb boot stop` ends that\n",
                  boot_trace, *process);
    else if (has_boot_trace())
        print_out("This boot: was recorded, into {}\n", boot_trace);
    else if (was_asked && !fs::exists(fmt::format("{}/hold", boot_folder), failed))
        print_out("This boot: was to be recorded, and was not: {}/log, and plumb-init in the kernel's log "
                  "(dmesg), say why\n",
                  boot_folder);
    else if (was_asked)
        print_out("This boot: was recorded, and its trace taken away\n");
    else
        print_out("This boot: not recorded\n");
    return 0;
}

int stop() {
    if (Status stopped = stop_boot_recording(); !stopped) return complain(stopped.error());
    print_out("The trace is in {}.\n", boot_trace);
    return 0;
}

int run_boot(const BootOptions& options) {
    if (options.what != "enable" &&
        (!options.record.empty() || !options.preload.empty() || !options.init.empty() || options.module ||
         options.initramfs || options.kernel_start)) {
        complain(Error("Options of the recording go with `plumb boot enable`."));
        return exit_status_of_wrong_words;
    }
    const BootFiles files(options.root);
    if (options.what != "status" && files.is_of_this_system() && ::geteuid() != 0)
        return complain(Error("Only root changes how the machine boots."));
    if (Status sound = files.check_links(); !sound) return complain(sound.error());
    if (options.what == "enable") return enable(options, files);
    if (options.what == "disable") return disable(files);
    return options.what == "stop" ? stop() : show_status(files);
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
    command->add_flag("--module", options->module,
                      "Load plumb.ko before the recording begins, by modprobe; it has to be installed");
    command->add_flag("--initramfs", options->initramfs,
                      "Begin the recording in the initramfs, before the root is mounted (initramfs-tools)");
    command->add_flag(
        "--kernel-start", options->kernel_start,
        "Begin with the kernel's own start, which it records itself: trace_event= on its command line");
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
