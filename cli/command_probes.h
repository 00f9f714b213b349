/*
 * What is brought into a command by its environment: the probes of --preload, and the agent for Java of --jvm.
 */
#ifndef PLUMB_CLI_COMMAND_PROBES_H
#define PLUMB_CLI_COMMAND_PROBES_H

#include "base/result.h"

#include <string>
#include <utility>
#include <vector>

namespace plumb {

class CommandProbes {
public:
    /* Behind what this process has inherited. An error names what was not found. */
    static Result<CommandProbes> find(const std::vector<std::string>& preload, bool jvm,
                                      const std::string& jvm_agent_options);

    void add_to(std::vector<std::pair<std::string, std::string>>& environment) const;

private:
    std::string preload_, java_options_;
};

} // namespace plumb

#endif
