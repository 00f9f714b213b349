#include "base/trace_folders.h"

#include <unistd.h>

#include <chrono>
#include <thread>

namespace plumb {

std::vector<std::string> folders_that_stay(std::vector<std::string> folders) {
    constexpr int looks = 5;
    constexpr std::chrono::milliseconds pause(10);
    for (int i = 0; i < looks && !folders.empty(); i++) {
        std::this_thread::sleep_for(pause);
        std::erase_if(folders, [](const std::string& folder) { return ::access(folder.c_str(), F_OK) != 0; });
    }
    return folders;
}

} // namespace plumb
