#include "cli/command_probes.h"

#include "cli/jvm.h"
#include "cli/preload.h"

#include <cstdlib>

namespace plumb {

Result<CommandProbes> CommandProbes::find(const std::vector<std::string>& preload, bool jvm,
                                          const std::string& jvm_agent_options) {
    CommandProbes probes;
    const char* const inherited = std::getenv("LD_PRELOAD");
    if (!preload.empty()) {
        auto found = preload_variable(preload, inherited);
        if (!found) return found.error();
        probes.preload_ = std::move(*found);
    }
    if (!jvm) return probes;
    auto java = java_tool_options(std::getenv("JAVA_TOOL_OPTIONS"), jvm_agent_options);
    if (!java) return java.error();
    probes.java_options_ = std::move(*java);
    auto runtime = runtime_variable("jvm", preload.empty() ? inherited : probes.preload_.c_str());
    if (!runtime) return runtime.error();
    if (preload.empty()) probes.preload_ = std::move(*runtime);
    return probes;
}

void CommandProbes::add_to(std::vector<std::pair<std::string, std::string>>& environment) const {
    if (!preload_.empty()) {
        environment.emplace_back("LD_PRELOAD", preload_);
        environment.emplace_back("ASAN_OPTIONS", asan_options(std::getenv("ASAN_OPTIONS")));
    }
    if (!java_options_.empty()) environment.emplace_back("JAVA_TOOL_OPTIONS", java_options_);
}

} // namespace plumb
