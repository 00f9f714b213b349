#include "consumerd/daemon/drain_lines.h"

#include <algorithm>
#include <cstddef>
#include <mutex>

namespace plumb {
namespace {

constexpr std::size_t drain_lines_max = 8;

struct NotedLines {
    std::mutex lock;
    std::vector<std::string> lines;
};

NotedLines& noted_lines() {
    static NotedLines noted;
    return noted;
}

} // namespace

void note_drain_line(const std::string& line) {
    NotedLines& noted = noted_lines();
    const std::lock_guard<std::mutex> held(noted.lock);
    std::erase(noted.lines, line);
    noted.lines.push_back(line);
    if (noted.lines.size() > drain_lines_max) noted.lines.erase(noted.lines.begin());
}

std::vector<std::string> drain_lines() {
    NotedLines& noted = noted_lines();
    const std::lock_guard<std::mutex> held(noted.lock);
    return noted.lines;
}

} // namespace plumb
