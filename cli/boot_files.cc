#include "cli/boot_files.h"

#include "base/file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace plumb {
namespace {

namespace fs = std::filesystem;

constexpr const char* settings_file = "etc/plumb/boot";
constexpr const char* grub_file = "etc/default/grub.d/plumb.cfg";
/* Of initramfs-tools; those for both kinds of root are the same. */
constexpr const char* hook_file = "etc/initramfs-tools/hooks/plumb";
constexpr const char* begin_file = "etc/initramfs-tools/scripts/init-top/plumb";
constexpr const char* move_files[] = {"etc/initramfs-tools/scripts/local-bottom/plumb",
                                      "etc/initramfs-tools/scripts/nfs-bottom/plumb"};
constexpr const char* mark = "# Written by `plumb boot enable`, removed by `plumb boot disable`.\n";

std::vector<const char*> script_files() {
    return {hook_file, begin_file, move_files[0], move_files[1]};
}

/* In the order in which they are taken away: no plumb-init is told of without its settings. */
std::vector<const char*> all_files() {
    std::vector<const char*> files = {grub_file};
    for (const char* script : script_files())
        files.push_back(script);
    files.push_back(settings_file);
    return files;
}

/* Those that may be made, the deepest first. */
constexpr const char* directories[] = {"etc/plumb",
                                       "etc/default/grub.d",
                                       "etc/default",
                                       "etc/initramfs-tools/scripts/init-top",
                                       "etc/initramfs-tools/scripts/local-bottom",
                                       "etc/initramfs-tools/scripts/nfs-bottom",
                                       "etc/initramfs-tools/scripts",
                                       "etc/initramfs-tools/hooks",
                                       "etc/initramfs-tools",
                                       "etc"};

bool is_anything(const fs::path& path) {
    std::error_code failed;
    return fs::exists(fs::symlink_status(path, failed));
}

/* Others may have files of these names: a package of a distribution. */
bool is_ours(const fs::path& path) {
    const auto text = read_small_file(path);
    return text && text->find(mark) != std::string::npos;
}

/* initramfs-tools asks each script which others come first. */
std::string script(std::string_view body) {
    return fmt::format("#!/bin/sh\n{}[ \"$1\" != prereqs ] || exit 0\n{}", mark, body);
}

/* Without plumb, or plumb.ko, mkinitramfs goes on, and the boot says what is missing. */
std::string hook(bool with_module, const std::string& plumb, const std::string& plumb_init) {
    return script(fmt::format(". /usr/share/initramfs-tools/hook-functions\n"
                              "{}"
                              "copy_exec {}\n"
                              "copy_exec {}\n"
                              "copy_file config /{}\n"
                              "exit 0\n",
                              with_module ? "manual_add_modules plumb\n" : "", plumb, plumb_init,
                              settings_file));
}

} // namespace

bool BootFiles::has_initramfs_tools() const {
    return fs::exists(path("usr/share/initramfs-tools/hook-functions"));
}

bool BootFiles::has_module() const {
    std::error_code failed;
    for (fs::recursive_directory_iterator at(path("lib/modules"), failed), end; !failed && at != end;
         at.increment(failed))
        if (at->path().filename().string().starts_with("plumb.ko")) return true;
    return false;
}

Status BootFiles::check_links() const {
    if (is_of_this_system()) return ok();
    std::vector<const char*> all = all_files();
    all.insert(all.end(), std::begin(directories), std::end(directories));
    for (const char* each : all) {
        std::error_code failed;
        if (fs::is_symlink(fs::symlink_status(path(each), failed)))
            return Error("{} is a link, which may lead out of that system.", path(each).string())
                .hint("Run `plumb boot` in it, by chroot.");
    }
    return ok();
}

Result<std::string> BootFiles::settings() const {
    return read_small_file(path(settings_file));
}

/* Others' files of these names are no part of it. */
bool BootFiles::has_any() const {
    const auto files = all_files();
    return is_anything(path(settings_file)) || is_anything(path(grub_file)) ||
           std::any_of(files.begin(), files.end(), [this](const char* each) { return is_ours(path(each)); });
}

bool BootFiles::has_scripts() const {
    const auto files = script_files();
    return std::any_of(files.begin(), files.end(), [this](const char* each) { return is_ours(path(each)); });
}

std::vector<std::string> BootFiles::missing_directories(bool initramfs) const {
    std::vector<std::string> missing;
    for (const std::string_view each : directories)
        if ((initramfs || each.find("initramfs") == std::string_view::npos) &&
            !fs::exists(path(std::string(each))))
            missing.emplace_back(each);
    return missing;
}

Status BootFiles::write(const BootOptions& options, const std::string& settings, const std::string& plumb,
                        const std::string& plumb_init, const std::string& parameters) const {
    const std::vector<std::string> missing = missing_directories(options.initramfs);
    for (auto each = missing.rbegin(); each != missing.rend(); ++each) {
        std::error_code failed;
        if (!fs::create_directory(path(*each), failed) && failed)
            return Error::from_errno(failed.value(), "Could not make the directory {}", path(*each).string());
    }
    const auto store = [this](const char* name, const std::string& text) {
        if (is_anything(path(name)) && !is_ours(path(name)))
            return Status(Error("{} is there, and not of Plumb.", path(name).string()));
        return replace_file(path(name), text);
    };
    if (Status stored = store(settings_file, mark + settings); !stored) return stored;
    if (options.initramfs) {
        Status stored = store(hook_file, hook(options.module, plumb, plumb_init));
        if (stored) stored = store(begin_file, script(fmt::format("{} --begin\n", plumb_init)));
        for (const char* each : move_files)
            if (stored) stored = store(each, script(fmt::format("{} --move\n", plumb_init)));
        if (!stored) return stored;
        for (const char* each : script_files())
            if (::chmod(path(each).c_str(), 0755) != 0)
                return Error::from_errno(errno, "Could not make {} executable", path(each).string());
    }
    return store(grub_file, fmt::format("{}GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {}\"\n",
                                        mark, parameters));
}

Status BootFiles::remove(const char* file) const {
    if (!is_anything(path(file))) return ok();
    if (!is_ours(path(file)))
        return Error("{} is still there: it is not as Plumb has written it.", path(file).string())
            .hint("Remove it, if it is not yours, and run `plumb boot disable` again.");
    if (::unlink(path(file).c_str()) == 0) return ok();
    return Error::from_errno(errno, "Could not remove {}", path(file).string());
}

Status BootFiles::remove_scripts() const {
    Status all = remove(grub_file);
    for (const char* file : script_files())
        if (Status removed = is_ours(path(file)) ? remove(file) : ok(); !removed && all) all = removed;
    return all;
}

Status BootFiles::take_back(const std::vector<std::string>& made) const {
    Status all = remove_scripts();
    if (Status removed = remove(settings_file); !removed && all) all = removed;
    for (const char* each : directories)
        if (std::count(made.begin(), made.end(), each) != 0) ::rmdir(path(each).c_str());
    return all;
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

} // namespace plumb
