#include "consumerd/control/directory_keeper.h"

#include "consumerd/control/container_places.h"
#include "consumerd/control/kernel_module.h"
#include "consumerd/control/seccomp.h"

#include <plumb/abi/state.h>

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <mutex>
#include <unistd.h>

namespace plumb {
namespace {

/* With those of all users, for root. As long as it is open, the module stays. */
const FileDescriptor& all_of_module() {
    static std::mutex mutex;
    static FileDescriptor opened;
    const std::lock_guard lock(mutex);
    if (!opened.is_open())
        opened = kernel_module_descriptor(PLUMB_OPERATION_DIRECTORY, PLUMB_DIRECTORY_OF_ALL);
    return opened;
}

bool has_module() {
    return is_kernel_module_loaded() && open_own_of_module().is_open();
}

/* Of directories by the name of each user. */
void add_places(const std::vector<std::string>& names, DirectoryKeeper keeper, std::vector<UserPlace>& to) {
    constexpr std::string_view prefix = "plumb-";
    for (const std::string& name : names)
        if (name.starts_with(prefix))
            if (const auto user_id = user_number_in(std::string_view(name).substr(prefix.size())))
                to.push_back({*user_id, keeper});
}

} // namespace

std::vector<DirectoryKeeper> directory_keepers() {
    static std::mutex mutex;
    static std::vector<DirectoryKeeper> known;
    const std::lock_guard lock(mutex);
    const bool is_first = known.empty();
    if (is_first) known.push_back(DirectoryKeeper::shared_memory);
    if (known.size() > 1 || !has_module()) return known;
    const bool is_main = is_first && own_seccomp_filters() == 0;
    known.insert(is_main ? known.begin() : known.end(), DirectoryKeeper::module);
    return known;
}

bool has_several_keepers() {
    return directory_keepers().size() > 1;
}

UserPlace main_place(uid_t user_id) {
    return {user_id, directory_keepers().front()};
}

std::vector<UserPlace> places_of(uid_t user_id) {
    std::vector<UserPlace> places;
    for (const DirectoryKeeper keeper : directory_keepers())
        places.push_back({user_id, keeper});
    return places;
}

std::tuple<uid_t, DirectoryKeeper, std::uint64_t, uid_t> UserPlace::key() const {
    return {user_id, keeper, container ? container->key() : 0, user_there};
}

std::string shown_path_of(const UserPlace& place) {
    if (place.keeper == DirectoryKeeper::module) return fmt::format("plumb.ko:/plumb-{}", place.user_id);
    if (place.container) return fmt::format("{}/plumb-{}", place.container->shown_path(), place.user_there);
    char path[64];
    std::snprintf(path, sizeof(path), PLUMB_STATE_DIRECTORY, static_cast<unsigned>(place.user_id));
    return path;
}

Result<std::string> path_of(const UserPlace& place) {
    if (place.container) return fmt::format("{}/plumb-{}", place.container->path(), place.user_there);
    if (place.keeper == DirectoryKeeper::shared_memory) return shown_path_of(place);
    if (!all_of_module().is_open())
        return Error("{}: only root reaches directories of others in plumb.ko.", shown_path_of(place))
            .as(ENOENT);
    return fmt::format("/proc/self/fd/{}/plumb-{}", all_of_module().get(), place.user_id);
}

FileDescriptor open_own_of_module() {
    return kernel_module_descriptor(PLUMB_OPERATION_DIRECTORY);
}

void fix_size(const UserPlace& place, const FileDescriptor& file) {
    if (place.keeper == DirectoryKeeper::module) fix_size_by_kernel_module(file);
}

std::optional<uid_t> user_number_in(std::string_view text) {
    uid_t number = 0;
    const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (wrong != std::errc() || rest != text.data() + text.size()) return {};
    return number;
}

Result<std::vector<UserPlace>> places_with_directory() {
    std::vector<UserPlace> places;
    if (has_several_keepers()) {
        const auto names = all_of_module().is_open()
                               ? list_directory(fmt::format("/proc/self/fd/{}", all_of_module().get()))
                               : std::vector<std::string>{fmt::format("plumb-{}", ::geteuid())};
        if (!names) return names.error();
        add_places(*names, DirectoryKeeper::module, places);
    }
    const auto names = list_directory("/dev/shm");
    if (names) add_places(*names, DirectoryKeeper::shared_memory, places);
    if (!names && places.empty()) return names.error();
    return places;
}

} // namespace plumb
