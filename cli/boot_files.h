/*
 * What `plumb boot enable` writes into a system, and `disable` takes away again: what plumb-init is to do, the kernel's command
 * line by Debian's way to it, and for a recording that begins in the initramfs, a hook and scripts for initramfs-tools.
 */
#ifndef PLUMB_CLI_BOOT_FILES_H
#define PLUMB_CLI_BOOT_FILES_H

#include "base/result.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

struct BootOptions {
    std::string what;
    std::string root = "/"; /* of the system that is changed */
    std::string init;       /* empty: the usual ones */
    std::vector<std::string> preload;
    bool module = false;             /* with plumb.ko */
    bool initramfs = false;          /* from there on */
    bool kernel_start = false;       /* from the kernel's first moments on */
    std::vector<std::string> record; /* options of plumb record */
};

class BootFiles {
public:
    explicit BootFiles(std::string root) : root_(std::move(root)) {}

    std::filesystem::path path(const std::string& in_root) const { return root_ / in_root; }
    bool is_of_this_system() const { return root_ == "/"; }
    bool has_initramfs_tools() const;
    /* Whether there is a plumb.ko for any of its kernels. */
    bool has_module() const;
    /* Whether links lead out of it: of another system, they lead where they do here. */
    Status check_links() const;

    /* What plumb-init is to do, as it stands there; ENOENT: it is not enabled. */
    Result<std::string> settings() const;
    /* Whether anything of an `enable` is there. */
    bool has_any() const;
    /* Whether scripts for the initramfs are. */
    bool has_scripts() const;
    /* The directories that are not there yet, the deepest first: `made` in the settings, so that they go with the files. */
    std::vector<std::string> missing_directories(bool initramfs) const;

    /* `plumb_init`: where it is; `plumb`: and the command; `parameters`: of the kernel. What could not be written whole is taken back by the caller. */
    Status write(const BootOptions& options, const std::string& settings, const std::string& plumb,
                 const std::string& plumb_init, const std::string& parameters) const;
    /* All but the settings: what makes the machine's next boot one that is recorded. */
    Status remove_scripts() const;
    /* The files, and of the directories those that were made for them and are empty. */
    Status take_back(const std::vector<std::string>& made) const;

private:
    Status remove(const char* file) const;

    std::filesystem::path root_;
};

/* The values of one name in the settings. */
std::vector<std::string> values_of(std::string_view settings, std::string_view name);

} // namespace plumb

#endif
